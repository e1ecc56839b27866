package deb

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// maxWindow bounds the memory of a zstd decoder: dpkg-deb uses 8 MiB at most.
const maxWindow = 128 << 20

// Decompress reads what is compressed as the ending of name says: .xz, .zst,
// .gz, or none of them. The size of what comes out is for the caller to bound,
// and xz takes as much memory as its header asks for: give it nothing whose
// digest was not checked.
func Decompress(name string, r io.Reader) (io.ReadCloser, error) {
	var c io.ReadCloser
	var err error
	switch br := bufio.NewReaderSize(r, 64<<10); {
	case strings.HasSuffix(name, ".xz"):
		// The capacity is the least that is allocated; with the smallest it is
		// what the header says, 1 MiB for a kernel module instead of 8.
		var x *xz.Reader
		x, err = xz.ReaderConfig{DictCap: lzma.MinDictCap}.NewReader(br)
		c = io.NopCloser(x)
	case strings.HasSuffix(name, ".zst"):
		var z *zstd.Decoder
		z, err = zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err == nil {
			c = z.IOReadCloser()
		}
	case strings.HasSuffix(name, ".gz"):
		c, err = gzip.NewReader(br)
	default:
		c = io.NopCloser(br)
	}
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", name, err)
	}
	return c, nil
}
