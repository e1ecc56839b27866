package source

import (
	"bytes"
	"crypto/sha1"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/writ-os/writ/controlplane/durable"
)

// state is what a clone knows of itself. It is written after the objects that
// it speaks of are on the disk: what it says is there, is there.
type state struct {
	URL       string   `json:"url"`
	Branch    string   `json:"branch"` // key of the target
	Head      string   `json:"head"`
	Tag       string   `json:"tag,omitempty"`
	TagObject string   `json:"tagObject,omitempty"` // of an annotated tag
	Rewritten bool     `json:"rewritten,omitempty"`
	Shallow   []string `json:"shallow,omitempty"` // commits whose parents are not here
	Depth     int      `json:"depth,omitempty"`   // of the history that was asked for
	Size      int64    `json:"size"`              // bytes of the packs when it was new
	Largest   int64    `json:"largest,omitempty"` // the remote was asked to leave out larger files
	Absent    []string `json:"absent,omitempty"`  // files that it left out
}

func (s state) head() plumbing.Hash { return plumbing.NewHash(s.Head) }

func (s state) found() found {
	f := found{head: s.head(), want: s.head(), tag: s.Tag, rewritten: s.Rewritten}
	if s.TagObject != "" {
		f.want = plumbing.NewHash(s.TagObject)
	}
	return f
}

// at says whether this is the state of a choice.
func (s state) at(c choice) bool {
	f := s.found()
	return s.Tag == c.tag && f.want == c.want && (c.commit == f.head || c.commit == c.want)
}

// cloneDir is the directory of a clone: the repository that is read, and the
// next one while it is being made.
type cloneDir struct{ root string }

func (d cloneDir) repo() string  { return filepath.Join(d.root, "repository") }
func (d cloneDir) next() string  { return filepath.Join(d.root, "next") }
func (d cloneDir) old() string   { return filepath.Join(d.root, "old") }
func (d cloneDir) probe() string { return filepath.Join(d.root, "probe") }

const (
	stateFile    = "writ.json"
	incomingPack = "incoming.pack" // while it is received and verified
)

// load reads the state of a clone and verifies its packs. The zero state is
// that of a clone that is not there, or is of something else.
func (d cloneDir) load(url, key string) (state, error) {
	d.recover()
	b, err := os.ReadFile(filepath.Join(d.repo(), stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("read state of clone: %w", err)
	}
	var st state
	if err := json.Unmarshal(b, &st); err != nil {
		return state{}, fmt.Errorf("read state of clone: %w", err)
	}
	if st.URL != url || st.Branch != key || !plumbing.IsHash(st.Head) {
		return state{}, nil
	}
	d.sweep(d.repo())
	return st, verify(d.repo())
}

// recover finishes or takes back what a crash interrupted: the clone that was
// read goes on serving until the next one has its place.
func (d cloneDir) recover() {
	if _, err := os.Stat(d.repo()); errors.Is(err, fs.ErrNotExist) {
		_ = os.Rename(d.old(), d.repo())
	}
	_ = os.RemoveAll(d.old())
	_ = os.RemoveAll(d.probe())
}

// begin makes an empty repository.
func (d cloneDir) begin(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("make clone: %w", err)
	}
	for _, sub := range []string{"objects/pack", "objects/info", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(sub)), 0o700); err != nil {
			return fmt.Errorf("make clone: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/main\n"), 0o600); err != nil {
		return fmt.Errorf("make clone: %w", err)
	}
	return nil
}

// swap puts the next clone in the place of the one that is read.
func (d cloneDir) swap() error {
	err := os.RemoveAll(d.old())
	if err == nil {
		err = os.Rename(d.repo(), d.old())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace clone: %w", err)
	}
	if err := durable.Rename(d.next(), d.repo()); err != nil {
		return fmt.Errorf("replace clone: %w", err)
	}
	if err := os.RemoveAll(d.old()); err != nil {
		return fmt.Errorf("replace clone: %w", err)
	}
	return nil
}

// save writes the state of the repository in dir, whole or not at all.
func (d cloneDir) save(dir string, st state) error {
	b, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return fmt.Errorf("save state of clone: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(dir, stateFile), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("save state of clone: %w", err)
	}
	return nil
}

// sweep removes what an interrupted fetch left: packs without a name and
// indexes without a pack.
func (d cloneDir) sweep(dir string) {
	_ = os.Remove(filepath.Join(dir, incomingPack))
	_ = os.Remove(filepath.Join(dir, incomingPack+".idx"))
	entries, _ := os.ReadDir(filepath.Join(dir, "objects", "pack"))
	for _, e := range entries {
		name := filepath.Join(dir, "objects", "pack", e.Name())
		base, isIndex := strings.CutSuffix(name, ".idx")
		_, err := os.Stat(base + ".pack")
		if strings.HasPrefix(e.Name(), "tmp_") || isIndex && errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(name)
		}
	}
}

// packs counts the packs of a repository and their bytes.
func packs(dir string) (size int64, n int, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, "objects", "pack"))
	if err != nil {
		return 0, 0, fmt.Errorf("read packs: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".pack") {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return 0, 0, fmt.Errorf("read packs: %w", err)
		}
		size, n = size+info.Size(), n+1
	}
	return size, n, nil
}

// verify compares every pack and index with the checksum at its end.
func verify(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "pack-*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := verifyFile(name); err != nil {
			return fmt.Errorf("verify %s: %w", filepath.Base(name), err)
		}
	}
	return nil
}

func verifyFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < 2*sha1.Size {
		return errors.New("too short")
	}
	sum := sha1.New()
	if _, err := io.CopyN(sum, f, info.Size()-sha1.Size); err != nil {
		return err
	}
	want, err := io.ReadAll(f)
	if err == nil && !bytes.Equal(sum.Sum(nil), want) {
		err = errors.New("the checksum is wrong")
	}
	return err
}
