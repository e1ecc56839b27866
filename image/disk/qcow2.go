package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// The format of QEMU's disk images, version 3, after its docs/interop/qcow2.txt.
const (
	qcowMagic    = 0x514649fb
	qcowHeader   = 112
	qcowZstd     = 1      // compression type
	qcowTyped    = 1 << 3 // incompatible feature: there is a compression type
	clusterBits  = 16
	clusterSize  = 1 << clusterBits
	perTable     = clusterSize / 8 // clusters that an L2 table maps
	perRefs      = clusterSize / 2 // clusters that a block of reference counts has
	usedOnce     = 1 << 63         // flag of a cluster that no snapshot shares
	maxImageSize = 1 << 40
)

// QCOW2 writes a raw image of size bytes as qcow2, its clusters packed by zstd,
// which QEMU reads since 5.1. What is zero takes no room.
func QCOW2(out io.WriterAt, raw io.ReaderAt, size int64) error {
	if err := writeQCOW2(out, raw, size); err != nil {
		return fmt.Errorf("write qcow2: %w", err)
	}
	return nil
}

func writeQCOW2(out io.WriterAt, raw io.ReaderAt, size int64) error {
	if size <= 0 || size > maxImageSize || size%512 != 0 {
		return fmt.Errorf("an image of %d bytes", size)
	}
	used, err := usedClusters(raw, size)
	if err != nil {
		return err
	}
	l := layoutQCOW2(used)
	packed, err := newPacker(out, l.data*clusterSize, len(used))
	if err != nil {
		return err
	}
	b := make([]byte, clusterSize)
	for i, u := range used {
		if !u {
			continue
		}
		n, err := readCluster(raw, size, i, b)
		if err != nil {
			return err
		}
		clear(b[n:])
		if err := packed.add(i, b); err != nil {
			return err
		}
	}
	if err := packed.end(); err != nil {
		return err
	}
	return l.writeTables(out, size, packed)
}

// usedClusters says which clusters of the image are not all zeros.
func usedClusters(raw io.ReaderAt, size int64) ([]bool, error) {
	used := make([]bool, (size+clusterSize-1)/clusterSize)
	b := make([]byte, clusterSize)
	for i := range used {
		n, err := readCluster(raw, size, i, b)
		if err != nil {
			return nil, err
		}
		used[i] = !bytes.Equal(b[:n], zeros[:n])
	}
	return used, nil
}

func readCluster(raw io.ReaderAt, size int64, i int, b []byte) (int, error) {
	at := int64(i) * clusterSize
	n := int(min(clusterSize, size-at))
	if got, err := raw.ReadAt(b[:n], at); got < n {
		return 0, fmt.Errorf("read image at byte %d: %w", at, err)
	}
	return n, nil
}

// places are the parts of the file, in clusters: the header in the first one,
// then reference counts, then the tables of two levels, then the data, for
// which there is room as if none of it could be packed.
type places struct {
	refTable, refTableLen  int64
	refBlocks, refBlockLen int64
	l1, l1Len, l1Entries   int64
	l2                     int64
	l2Of                   []int64 // cluster of each L2 table, 0 for none
	data, total            int64
}

func layoutQCOW2(used []bool) places {
	p := places{refTable: 1, l1Entries: int64(len(used)+perTable-1) / perTable}
	p.l1Len = (p.l1Entries*8 + clusterSize - 1) / clusterSize
	tables, data := int64(0), int64(0)
	p.l2Of = make([]int64, p.l1Entries)
	for i, u := range used {
		if u {
			data++
			if p.l2Of[i/perTable] == 0 {
				tables++
				p.l2Of[i/perTable] = tables // made a place below
			}
		}
	}
	// Reference counts count the clusters that they lie in themselves.
	for rest := 1 + p.l1Len + tables + data; ; {
		blocks := (rest + p.refTableLen + p.refBlockLen + perRefs - 1) / perRefs
		table := (blocks*8 + clusterSize - 1) / clusterSize
		if blocks == p.refBlockLen && table == p.refTableLen {
			break
		}
		p.refBlockLen, p.refTableLen = blocks, table
	}
	p.refBlocks = p.refTable + p.refTableLen
	p.l1 = p.refBlocks + p.refBlockLen
	p.l2 = p.l1 + p.l1Len
	p.data = p.l2 + tables
	p.total = p.data + data
	for i, n := range p.l2Of {
		if n > 0 {
			p.l2Of[i] = p.l2 + n - 1
		}
	}
	return p
}

// writeTables writes everything but the data.
func (p places) writeTables(out io.WriterAt, size int64, data *packer) error {
	be := binary.BigEndian
	b := make([]byte, p.data*clusterSize)
	be.PutUint32(b, qcowMagic)
	be.PutUint32(b[4:], 3)
	be.PutUint32(b[20:], clusterBits)
	be.PutUint64(b[24:], uint64(size))
	be.PutUint32(b[36:], uint32(p.l1Entries))
	be.PutUint64(b[40:], uint64(p.l1*clusterSize))
	be.PutUint64(b[48:], uint64(p.refTable*clusterSize))
	be.PutUint32(b[56:], uint32(p.refTableLen))
	be.PutUint64(b[72:], qcowTyped)
	be.PutUint32(b[96:], 4) // reference counts of 16 bits
	be.PutUint32(b[100:], qcowHeader)
	b[104] = qcowZstd
	for i := range p.refBlockLen {
		be.PutUint64(b[p.refTable*clusterSize+8*i:], uint64((p.refBlocks+i)*clusterSize))
	}
	for i := range p.data {
		be.PutUint16(b[p.refBlocks*clusterSize+2*i:], 1)
	}
	for at, n := range data.refs {
		be.PutUint16(b[p.refBlocks*clusterSize+2*at:], n)
	}
	for i, at := range p.l2Of {
		if at > 0 {
			be.PutUint64(b[p.l1*clusterSize+8*int64(i):], usedOnce|uint64(at*clusterSize))
		}
	}
	for i, e := range data.entries {
		if e != 0 {
			be.PutUint64(b[p.l2Of[i/perTable]*clusterSize+int64(i%perTable)*8:], e)
		}
	}
	_, err := out.WriteAt(b, 0)
	return err
}
