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
)

// state is what a clone knows of itself. It is written after the objects that
// it speaks of are on the disk: what it says is there, is there.
type state struct {
	URL       string   `json:"url"`
	Branch    string   `json:"branch"`
	Head      string   `json:"head"`
	Rewritten bool     `json:"rewritten,omitempty"`
	Shallow   []string `json:"shallow,omitempty"` // commits whose parents are not here
	Size      int64    `json:"size"`              // bytes of the packs when it was new
}

func (s state) head() plumbing.Hash { return plumbing.NewHash(s.Head) }

// cloneDir is the directory of a clone: the repository that is read, and the
// next one while it is being made.
type cloneDir struct{ root string }

func (d cloneDir) repo() string { return filepath.Join(d.root, "repository") }
func (d cloneDir) next() string { return filepath.Join(d.root, "next") }

const stateFile = "writ.json"

// load reads the state of a clone and verifies its packs. The zero state is
// that of a clone that is not there, or is of something else.
func (d cloneDir) load(url, branch string) (state, error) {
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
	if st.URL != url || st.Branch != branch || !plumbing.IsHash(st.Head) {
		return state{}, nil
	}
	d.sweep(d.repo())
	return st, verify(d.repo())
}

// begin makes an empty repository for the next clone.
func (d cloneDir) begin() error {
	if err := os.RemoveAll(d.next()); err != nil {
		return fmt.Errorf("make clone: %w", err)
	}
	for _, sub := range []string{"objects/pack", "objects/info", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(d.next(), filepath.FromSlash(sub)), 0o700); err != nil {
			return fmt.Errorf("make clone: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(d.next(), "HEAD"), []byte("ref: refs/heads/main\n"), 0o600); err != nil {
		return fmt.Errorf("make clone: %w", err)
	}
	return nil
}

// swap puts the next clone in the place of the one that is read. A crash in
// between leaves none, and the next start fetches again.
func (d cloneDir) swap() error {
	if err := os.RemoveAll(d.repo()); err != nil {
		return fmt.Errorf("replace clone: %w", err)
	}
	if err := os.Rename(d.next(), d.repo()); err != nil {
		return fmt.Errorf("replace clone: %w", err)
	}
	return syncDir(d.root)
}

// save writes the state of the repository in dir, whole or not at all.
func (d cloneDir) save(dir string, st state) error {
	b, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return fmt.Errorf("save state of clone: %w", err)
	}
	tmp := filepath.Join(dir, stateFile+".tmp")
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("save state of clone: %w", err)
	}
	if err := syncDir(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(dir, stateFile)); err != nil {
		return fmt.Errorf("save state of clone: %w", err)
	}
	return syncDir(dir)
}

// sweep removes what an interrupted fetch left: packs without a name and
// indexes without a pack.
func (d cloneDir) sweep(dir string) {
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

// syncFiles brings the files of a directory, and itself, through to the disk.
func syncFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("sync packs: %w", err)
	}
	for _, e := range entries {
		if err := syncDir(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// syncDir brings a file or a directory through to the disk.
func syncDir(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("sync %s: %w", filepath.Base(name), err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", filepath.Base(name), err)
	}
	return nil
}
