package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"hash"
	"io"
)

// body is one file. It ends with an error where the bundle does.
type body struct {
	b    *Reader
	name string
	left int64
	sum  hash.Hash
	err  error
}

func (r *body) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.b.r.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	r.b.n += int64(n)
	r.sum.Write(p[:n])
	switch {
	case errors.Is(err, io.EOF) && r.left > 0:
		r.err = r.b.cut(r.name)
	case err != nil && !errors.Is(err, io.EOF):
		r.err = fmt.Errorf("read bundle: %w", err)
	}
	return n, r.err
}

func (b *Reader) cut(where string) error {
	return refuse("it is cut off: it ends after %d bytes, in %s", b.n, where)
}

// full reads n bytes.
func (b *Reader) full(n int64, where string) ([]byte, error) {
	p := make([]byte, n)
	k, err := io.ReadFull(b.r, p)
	b.n += int64(k)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, b.cut(where)
	case err != nil:
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	return p, nil
}

func (b *Reader) zeros(n int64, where string) error {
	p, err := b.full(n, where)
	if err != nil {
		return err
	}
	if len(bytes.Trim(p, "\x00")) > 0 {
		return refuse("something is hidden after %s", where)
	}
	return nil
}

// expect reads a header that must be this one.
func (b *Reader) expect(name string, size int64) error {
	got := b.pending
	if b.pending = nil; got == nil {
		var err error
		if got, err = b.full(block, "the header of "+name); err != nil {
			return err
		}
	}
	want, err := header(name, size, b.created)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return refuse("the header of %s is not in the form of a bundle", name)
	}
	return nil
}

// small reads a file that fits into memory.
func (b *Reader) small(name string, limit int64) ([]byte, error) {
	p, err := b.optional(name, limit)
	if err == nil && p == nil {
		err = refuse("it does not begin with %s: it is no bundle", name)
	}
	return p, err
}

// optional is small for a file that may be absent: nil then.
func (b *Reader) optional(name string, limit int64) ([]byte, error) {
	h, err := b.full(block, "the header of "+name)
	if err != nil {
		return nil, err
	}
	b.pending = h
	got, size, created, err := parseHeader(h)
	if err != nil || got != name {
		return nil, nil
	}
	if size <= 0 || size > limit {
		return nil, refuse("its %s has %d bytes, and may have up to %d", name, size, limit)
	}
	if b.created.IsZero() {
		b.created = created
	}
	if err := b.expect(name, size); err != nil {
		return nil, err
	}
	p, err := b.full(size, name)
	if err != nil {
		return nil, err
	}
	return p, b.zeros(padding(size), name)
}
