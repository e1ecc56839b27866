package tree

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Data is the content of a file, read when it is needed.
type Data struct {
	Size int64
	Open func() (io.ReadCloser, error)
}

// Bytes is content in memory. b must not change afterwards.
func Bytes(b []byte) Data {
	return Data{Size: int64(len(b)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}
}

// HostFile is the content of a file of this machine.
func HostFile(name string) (Data, error) {
	s, err := os.Stat(name)
	if err != nil {
		return Data{}, err
	}
	if !s.Mode().IsRegular() {
		return Data{}, fmt.Errorf("%s is no regular file", name)
	}
	return Data{Size: s.Size(), Open: func() (io.ReadCloser, error) { return os.Open(name) }}, nil
}

// maxFile bounds what is read into memory at once.
const maxFile = 1 << 30

// bytes reads the whole content, which must have the size that was said.
func (d Data) bytes() ([]byte, error) {
	if d.Size > maxFile {
		return nil, fmt.Errorf("it has %d bytes; at most %d are read", d.Size, int64(maxFile))
	}
	r, err := d.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := make([]byte, d.Size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("it changed while it was read: %w", err)
	}
	return b, nil
}

// begins says whether the content begins with prefix.
func (d Data) begins(prefix string) (bool, error) {
	if d.Size < int64(len(prefix)) {
		return false, nil
	}
	r, err := d.Open()
	if err != nil {
		return false, err
	}
	defer r.Close()
	b := make([]byte, len(prefix))
	if _, err := io.ReadFull(r, b); err != nil {
		return false, err
	}
	return string(b) == prefix, nil
}

// ReadFile reads the regular file that a path leads to. The error is
// fs.ErrNotExist when there is none.
func (t *Tree) ReadFile(at string) ([]byte, error) {
	real, err := t.Resolve(at)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	e, ok := t.entries[real]
	if !ok {
		return nil, fmt.Errorf("read %s: %w", at, fs.ErrNotExist)
	}
	if !e.Mode.IsRegular() {
		return nil, fmt.Errorf("read %s: it is no regular file", at)
	}
	b, err := e.Data.bytes()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	return b, nil
}
