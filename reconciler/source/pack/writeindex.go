package pack

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// write writes the index of the pack whose sum is given, through to the disk: the
// second version of gitformat-pack(5). An object that is there twice is refused,
// as git does in strict mode.
func (x *indexer) write(path string, sum plumbing.Hash) error {
	order := make([]int32, len(x.all))
	for i := range order {
		order[i] = int32(i) //nolint:gosec // Limits.Objects are fewer
	}
	slices.SortFunc(order, func(a, b int32) int { return bytes.Compare(x.all[a].hash[:], x.all[b].hash[:]) })
	for i := 1; i < len(order); i++ {
		if h := x.all[order[i]].hash; h == x.all[order[i-1]].hash {
			return fmt.Errorf("index pack: %w: object %s is in it twice", packfile.ErrMalformedPackFile, h)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	b := bufio.NewWriter(f)
	whole := sha1.New()
	x.encode(io.MultiWriter(b, whole), order, sum)
	_, err = b.Write(whole.Sum(nil))
	if err = errors.Join(err, b.Flush(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

// encode writes all but the sum of the index. The writer below keeps its first
// error.
func (x *indexer) encode(w io.Writer, order []int32, sum plumbing.Hash) {
	number := func(n uint32) { _, _ = w.Write(binary.BigEndian.AppendUint32(nil, n)) }
	_, _ = io.WriteString(w, "\xfftOc\x00\x00\x00\x02")
	var fan [256]uint32
	for i := range x.all {
		fan[x.all[i].hash[0]]++
	}
	var upTo uint32
	for _, n := range fan {
		upTo += n
		number(upTo)
	}
	for _, i := range order {
		_, _ = w.Write(x.all[i].hash[:])
	}
	for _, i := range order {
		number(x.all[i].crc)
	}
	var far []int64
	for _, i := range order {
		if pos := x.all[i].pos; pos <= math.MaxInt32 {
			number(uint32(pos))
		} else {
			number(1<<31 | uint32(len(far)))
			far = append(far, pos)
		}
	}
	for _, pos := range far {
		_, _ = w.Write(binary.BigEndian.AppendUint64(nil, uint64(pos)))
	}
	_, _ = w.Write(sum[:])
}
