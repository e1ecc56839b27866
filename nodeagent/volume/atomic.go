package volume

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// dataLink points to the directory with the current files:
//
//	key        -> ..data/key
//	..data     -> ..2026_01_02_15_04_05.123456
//	..2026_01_02_15_04_05.123456/key
const dataLink = "..data"

// Owner is who files belong to; -1 leaves it.
type Owner struct{ UID, GID int }

// Write makes a directory show exactly the files of a payload. Readers see all
// of the old files or all of the new ones. Nothing is written when nothing
// changes.
func Write(dir string, p Payload, o Owner) error {
	for name := range p {
		if !validName(name) {
			return fmt.Errorf("write volume: invalid file name %q", name)
		}
	}
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write volume: %w", err)
	}
	if old != "" && current(filepath.Join(dir, old), p) {
		return link(dir, p)
	}
	next, err := writeDir(dir, p, o)
	if err != nil {
		return fmt.Errorf("write volume: %w", err)
	}
	tmp := filepath.Join(dir, dataLink+"_tmp")
	_ = os.Remove(tmp) // of a crash
	if err := os.Symlink(next, tmp); err != nil {
		return fmt.Errorf("write volume: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, dataLink)); err != nil {
		return fmt.Errorf("write volume: %w", err)
	}
	if err := link(dir, p); err != nil {
		return err
	}
	return clean(dir, next, p)
}

// current says whether a directory holds exactly a payload.
func current(dir string, p Payload) bool {
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f, ok := p[rel]
		if !ok {
			return errors.New("more")
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(b, f.Data) {
			return errors.New("other")
		}
		n++
		return nil
	})
	return err == nil && n == len(p)
}

func writeDir(dir string, p Payload, o Owner) (string, error) {
	var b [4]byte
	rand.Read(b[:]) // never fails
	name := ".." + time.Now().UTC().Format("2006_01_02_15_04_05.") + hex.EncodeToString(b[:])
	top := filepath.Join(dir, name)
	if err := os.Mkdir(top, 0o755); err != nil {
		return "", err
	}
	if err := os.Chmod(top, 0o755); err != nil {
		return "", err
	}
	for path, f := range p {
		full := filepath.Join(top, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(full, f.Data, f.Mode); err != nil {
			return "", err
		}
		m := f.Mode
		if o.GID >= 0 {
			m |= (m & 0o700) >> 3 & 0o040 // the group may read what the owner may
		}
		if o.UID >= 0 || o.GID >= 0 {
			if err := os.Chown(full, o.UID, o.GID); err != nil {
				return "", err
			}
		}
		if err := os.Chmod(full, m); err != nil { // past the umask
			return "", err
		}
	}
	return name, nil
}

// tops are the names at the top of a payload.
func tops(p Payload) map[string]bool {
	out := map[string]bool{}
	for path := range p {
		first, _, _ := strings.Cut(path, "/")
		out[first] = true
	}
	return out
}

// link makes the links at the top that lead through dataLink.
func link(dir string, p Payload) error {
	for name := range tops(p) {
		err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("write volume: %w", err)
		}
	}
	return nil
}

// clean removes links to files that are no more, and directories of before.
func clean(dir, now string, p Payload) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("clean volume: %w", err)
	}
	want := tops(p)
	for _, e := range entries {
		name := e.Name()
		if name == dataLink || name == now || want[name] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("clean volume: %w", err)
		}
	}
	return nil
}
