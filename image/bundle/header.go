package bundle

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"time"
)

const (
	block   = 512
	trailer = 2 * block // of zeros, which end a tar
)

// header is the one form in which a file is announced.
func header(name string, size int64, created time.Time) ([]byte, error) {
	var b bytes.Buffer
	err := tar.NewWriter(&b).WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o444, ModTime: created.UTC(), Format: tar.FormatUSTAR,
	})
	if err != nil {
		return nil, fmt.Errorf("write header of %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// padding is how many zeros follow a file of that size.
func padding(size int64) int64 { return -size & (block - 1) }

// parseHeader reads what a header says. Whether it is in the one form, only
// who knows what to expect can tell.
func parseHeader(b []byte) (name string, size int64, created time.Time, err error) {
	h, err := tar.NewReader(bytes.NewReader(b)).Next()
	if err != nil {
		return "", 0, time.Time{}, err
	}
	if h.Typeflag != tar.TypeReg {
		return "", 0, time.Time{}, io.ErrUnexpectedEOF
	}
	return h.Name, h.Size, h.ModTime, nil
}
