package disk

import (
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	packedEntry = 1 << 62
	// Where an entry of a packed cluster counts its sectors: 62 - (clusterBits - 8).
	sectorsBit = 54
	sectorBits = 9
)

// packer writes clusters one behind the other, without gaps between those that
// are packed, and remembers where they are.
type packer struct {
	out io.WriterAt
	enc *zstd.Encoder
	at  int64
	buf []byte
	// entries are those of the L2 tables, by cluster of the image.
	entries []uint64
	// refs counts, by cluster of the file, what is in it.
	refs map[int64]uint16
}

func newPacker(out io.WriterAt, at int64, clusters int) (*packer, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("pack cluster: %w", err)
	}
	return &packer{out: out, enc: enc, at: at, entries: make([]uint64, clusters), refs: map[int64]uint16{}}, nil
}

// add writes a cluster of the image, packed where that makes it smaller.
func (p *packer) add(cluster int, b []byte) error {
	p.buf = p.enc.EncodeAll(b, p.buf[:0])
	data := p.buf
	if len(data) < len(b) {
		sectors := (p.at+int64(len(data))-1)>>sectorBits - p.at>>sectorBits // besides the first
		p.entries[cluster] = packedEntry | uint64(sectors)<<sectorsBit | uint64(p.at)
		for c := p.at >> clusterBits; c <= (p.at>>sectorBits+sectors)>>(clusterBits-sectorBits); c++ {
			p.refs[c]++
		}
	} else {
		data = b
		p.at = (p.at + clusterSize - 1) &^ (clusterSize - 1)
		p.entries[cluster] = usedOnce | uint64(p.at)
		p.refs[p.at>>clusterBits]++
	}
	_, err := p.out.WriteAt(data, p.at)
	p.at += int64(len(data))
	return err
}

// end fills the last cluster: a reader takes whole sectors.
func (p *packer) end() error {
	if rest := -p.at & (clusterSize - 1); rest > 0 {
		_, err := p.out.WriteAt(make([]byte, rest), p.at)
		return err
	}
	return nil
}
