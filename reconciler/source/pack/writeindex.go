package pack

import (
	"bufio"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
)

// writeIndex writes the index of the pack whose sum is given, through to the disk:
// the second version of gitformat-pack(5).
func writeIndex(path string, listing []byte, sum plumbing.Hash) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	b := bufio.NewWriter(f)
	whole := sha1.New()
	encode(io.MultiWriter(b, whole), listing, sum)
	_, err = b.Write(whole.Sum(nil))
	if err = errors.Join(err, b.Flush(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

// encode writes all but the sum of the index. The writer below keeps its first
// error.
func encode(w io.Writer, listing []byte, sum plumbing.Hash) {
	number := func(n uint32) { _, _ = w.Write(binary.BigEndian.AppendUint32(nil, n)) }
	_, _ = io.WriteString(w, "\xfftOc\x00\x00\x00\x02")
	var fan [256]uint32
	for i := 0; i < len(listing); i += listed {
		fan[listing[i]]++
	}
	var upTo uint32
	for _, n := range fan {
		upTo += n
		number(upTo)
	}
	for i := 0; i < len(listing); i += listed {
		_, _ = w.Write(listing[i:][:20])
	}
	for i := 0; i < len(listing); i += listed {
		_, _ = w.Write(listing[i+20:][:4])
	}
	var far []uint64
	for i := 0; i < len(listing); i += listed {
		if pos := binary.BigEndian.Uint64(listing[i+24:]); pos <= math.MaxInt32 {
			number(uint32(pos))
		} else {
			number(1<<31 | uint32(len(far))) //nolint:gosec // Limits.Objects are fewer
			far = append(far, pos)
		}
	}
	for _, pos := range far {
		_, _ = w.Write(binary.BigEndian.AppendUint64(nil, pos))
	}
	_, _ = w.Write(sum[:])
}
