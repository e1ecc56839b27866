package cli

import (
	"crypto/sha1" // the hash that Git gives a file, not a defence
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/writ-os/writ/reconciler/render"
)

// hashLimit is the size up to which a file is read for its hash. Larger ones
// are no manifests, and the renderer says so.
const hashLimit = 16 << 20

// dirTree reads a directory as if it were a commit. Links are shown as links
// and not followed; names that begin with "." are left out.
type dirTree string

// Walk implements render.Tree.
func (d dirTree) Walk() iter.Seq2[render.File, error] {
	return func(yield func(render.File, error) bool) {
		root := string(d)
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if path != root && strings.HasPrefix(e.Name(), ".") && e.Name() != ".writignore" {
				if e.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			if e.IsDir() {
				return nil
			}
			f, err := dirFile(root, path, e)
			if !yield(f, err) {
				return filepath.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(render.File{}, fmt.Errorf("read directory: %w", err))
		}
	}
}

func dirFile(root, path string, e fs.DirEntry) (render.File, error) {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return render.File{}, err
	}
	info, err := e.Info()
	if err != nil {
		return render.File{}, err
	}
	f := render.File{Path: filepath.ToSlash(rel), Mode: info.Mode().Type(), Size: info.Size(),
		Open: func() (io.ReadCloser, error) { return os.Open(path) }}
	if f.Mode == 0 && f.Size <= hashLimit {
		f.Blob, err = blobHash(path)
	}
	return f, err
}

// blobHash is the hash that Git gives the content of a file.
func blobHash(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil)), nil
}
