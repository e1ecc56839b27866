package bundle

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// window is how far back a packed file refers to itself, in bytes, and what a
// node needs of memory to unpack it. Programs of one language have much in common
// and lie far apart: 8 MiB make a root file system a tenth larger, 128 MiB
// would make it a fiftieth smaller.
const window = 64 << 20

// Level says how much work packing is worth.
type Level int

// The levels: Best for what is released, Quick for what is thrown away.
const (
	Best Level = iota
	Quick
)

// Pack packs all of in. Equal input makes equal output: one goroutine does it,
// whatever the machine has.
func Pack(out io.Writer, in io.Reader, level Level) error {
	speed := zstd.SpeedBestCompression
	if level == Quick {
		speed = zstd.SpeedFastest
	}
	enc, err := zstd.NewWriter(out, zstd.WithEncoderLevel(speed), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	_, err = io.Copy(enc, in)
	if err := errors.Join(err, enc.Close()); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	return nil
}

// unpacker reads what is in a packed file: as many bytes as its manifest says.
type unpacker struct {
	body *body
	file File
	dec  *zstd.Decoder
	left int64
	err  error
}

func newUnpacker(b *body, f File) (*unpacker, error) {
	dec, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", f.Name, err)
	}
	return &unpacker{body: b, file: f, dec: dec, left: f.Unpacked}, nil
}

func (u *unpacker) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	n, err := u.dec.Read(p)
	u.left -= int64(n)
	switch {
	case u.body.err != nil:
		u.err = u.body.err
	case u.left < 0, errors.Is(err, io.EOF) && u.left > 0:
		n, u.err = 0, refuse("its %s does not unpack to the %d bytes that its manifest says", u.file.Name, u.file.Unpacked)
	case err != nil && !errors.Is(err, io.EOF):
		u.err = refuse("its %s cannot be unpacked: %v", u.file.Name, err)
	default:
		u.err = err
	}
	return n, u.err
}
