package render

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"sort"
	"strings"
	"time"
)

// cueFS is the file system that the CUE loader sees: the CUE files of the
// tree, and nothing of this machine.
type cueFS struct {
	files map[string]File
	dirs  map[string][]string // names in each folder
}

var (
	_ fs.StatFS     = (*cueFS)(nil)
	_ fs.ReadDirFS  = (*cueFS)(nil)
	_ fs.ReadFileFS = (*cueFS)(nil)
)

func newCUEFS(files []File) *cueFS {
	c := &cueFS{files: map[string]File{}, dirs: map[string][]string{".": nil}}
	for _, f := range files {
		c.files[f.Path] = f
		for p := f.Path; p != "."; {
			dir := path.Dir(p)
			_, known := c.dirs[dir]
			c.dirs[dir] = append(c.dirs[dir], path.Base(p))
			if known {
				break
			}
			p = dir
		}
	}
	for _, names := range c.dirs {
		sort.Strings(names)
	}
	return c
}

// ReadFile implements fs.ReadFileFS.
func (c *cueFS) ReadFile(name string) ([]byte, error) {
	f, ok := c.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return f.read(maxFileSize)
}

// Open implements fs.FS.
func (c *cueFS) Open(name string) (fs.File, error) {
	info, err := c.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return &cueDir{fs: c, name: name}, nil
	}
	data, err := c.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &cueFile{Reader: bytes.NewReader(data), info: info}, nil
}

// Stat implements fs.StatFS.
func (c *cueFS) Stat(name string) (fs.FileInfo, error) {
	if f, ok := c.files[name]; ok {
		return cueInfo{path.Base(name), f.Size, 0o444}, nil
	}
	if _, ok := c.dirs[name]; ok {
		return cueInfo{path.Base(name), 0, fs.ModeDir | 0o555}, nil
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

// ReadDir implements fs.ReadDirFS.
func (c *cueFS) ReadDir(name string) ([]fs.DirEntry, error) {
	names, ok := c.dirs[name]
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	out := make([]fs.DirEntry, 0, len(names))
	for _, n := range names {
		info, err := c.Stat(strings.TrimPrefix(path.Join(name, n), "./"))
		if err != nil {
			return nil, err
		}
		out = append(out, fs.FileInfoToDirEntry(info))
	}
	return out, nil
}

type cueInfo struct {
	name string
	size int64
	mode fs.FileMode
}

func (i cueInfo) Name() string       { return i.name }
func (i cueInfo) Size() int64        { return i.size }
func (i cueInfo) Mode() fs.FileMode  { return i.mode }
func (i cueInfo) ModTime() time.Time { return time.Time{} }
func (i cueInfo) IsDir() bool        { return i.mode.IsDir() }
func (i cueInfo) Sys() any           { return nil }

type cueFile struct {
	*bytes.Reader
	info fs.FileInfo
}

func (f *cueFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *cueFile) Close() error               { return nil }

type cueDir struct {
	fs   *cueFS
	name string
	read bool
}

func (d *cueDir) Stat() (fs.FileInfo, error) { return d.fs.Stat(d.name) }
func (d *cueDir) Close() error               { return nil }
func (d *cueDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFile.
func (d *cueDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if d.read {
		if n > 0 {
			return nil, io.EOF
		}
		return nil, nil
	}
	d.read = true
	return d.fs.ReadDir(d.name)
}
