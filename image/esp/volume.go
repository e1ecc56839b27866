// Package esp makes the EFI system partition of an image, the FAT file system
// that firmware reads, and puts files into and takes them out of one that is
// there, as `writ image configure` does with an image before it is written to a
// disk.
//
// It owns nothing and watches nothing, and needs neither root nor a mount. The
// same files give the same bytes: times are the first that FAT knows, the volume
// ID is given. A file is replaced so that whenever the writing stops the old or
// the new one is there.
//
// Only FAT32 with sectors of 512 bytes is known: that is what firmware of virtual
// machines reads. Layout after Microsoft's FAT32 File System Specification
// (fatgen103, 2000).
package esp

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	sectorSize = 512
	entrySize  = 32 // of a folder

	// Bounds of what is read: an ESP is small.
	maxClusters = 1 << 24
	maxFile     = 256 << 20
	maxFolder   = 2 << 20 // as in the specification

	endOfChain  = 0x0fffffff
	clusterMask = 0x0fffffff
	badCluster  = 0x0ffffff7 // this and all above end a chain or are not used
)

var le = binary.LittleEndian

// Image is a disk image with an ESP in it, such as an *os.File.
type Image interface {
	io.ReaderAt
	io.WriterAt
}

// volume is an ESP that is open: its places, all in bytes from the start of the
// image, and its file allocation table.
type volume struct {
	r              io.ReaderAt
	w              io.WriterAt // nil when it is only read
	fatAt, fatSize int64
	fats           int64
	infoAt         int64
	dataAt         int64
	clusterSize    int64
	root           uint32
	fat            []uint32       // entries 0 and 1 are no clusters
	changed        map[int64]bool // sectors of the table to be written
	next           uint32         // where to look for a free cluster
	free           uint32         // clusters
}

// open reads the boot sector and the table of the ESP of size bytes at offset.
// A file system that says it is larger is refused: writing to it would change
// what lies behind.
func open(r io.ReaderAt, w io.WriterAt, offset, size int64) (*volume, error) {
	b := make([]byte, sectorSize)
	if _, err := r.ReadAt(b, offset); err != nil {
		return nil, fmt.Errorf("read boot sector: %w", err)
	}
	if b[510] != 0x55 || b[511] != 0xaa || le.Uint16(b[11:]) != sectorSize || le.Uint16(b[17:]) != 0 || le.Uint16(b[22:]) != 0 {
		return nil, fmt.Errorf("no FAT32 file system with sectors of %d bytes", sectorSize)
	}
	perCluster, reserved, fats := int64(b[13]), int64(le.Uint16(b[14:])), int64(b[16])
	total, fatSectors := int64(le.Uint32(b[32:])), int64(le.Uint32(b[36:]))
	if perCluster == 0 || perCluster&(perCluster-1) != 0 || reserved < 2 || fats < 1 || fats > 2 {
		return nil, fmt.Errorf("boot sector: %d sectors in a cluster, %d reserved, %d tables", perCluster, reserved, fats)
	}
	clusters := (total - reserved - fats*fatSectors) / perCluster
	if total*sectorSize > size {
		return nil, fmt.Errorf("boot sector: %d sectors, the partition has %d", total, size/sectorSize)
	}
	if clusters < 1 || clusters > maxClusters || (clusters+2)*4 > fatSectors*sectorSize {
		return nil, fmt.Errorf("boot sector: %d sectors, %d of them tables", total, fats*fatSectors)
	}
	v := &volume{
		r: r, w: w, fats: fats, fatAt: offset + reserved*sectorSize, fatSize: fatSectors * sectorSize,
		dataAt:      offset + (reserved+fats*fatSectors)*sectorSize,
		clusterSize: perCluster * sectorSize, root: le.Uint32(b[44:]), next: 2, changed: map[int64]bool{},
	}
	if info := int64(le.Uint16(b[48:])); info > 0 && info < reserved {
		v.infoAt = offset + info*sectorSize
	}
	table := make([]byte, (clusters+2)*4)
	if _, err := r.ReadAt(table, v.fatAt); err != nil {
		return nil, fmt.Errorf("read file allocation table: %w", err)
	}
	v.fat = make([]uint32, clusters+2)
	for i := range v.fat {
		v.fat[i] = le.Uint32(table[4*i:])
		if i >= 2 && v.fat[i]&clusterMask == 0 {
			v.free++
		}
	}
	if !v.inside(v.root) {
		return nil, fmt.Errorf("boot sector: the root folder is in cluster %d", v.root)
	}
	return v, nil
}

func (v *volume) inside(cluster uint32) bool {
	return cluster >= 2 && int64(cluster) < int64(len(v.fat))
}

func (v *volume) clusterAt(cluster uint32) int64 {
	return v.dataAt + int64(cluster-2)*v.clusterSize
}

// chain is the clusters of a file, up to limit bytes.
func (v *volume) chain(first uint32, limit int64) ([]uint32, error) {
	if !v.inside(first) {
		return nil, fmt.Errorf("file allocation table: a chain begins at cluster %d, there are %d", first, len(v.fat))
	}
	var all []uint32
	for c := first; c < badCluster; c = v.fat[c] & clusterMask {
		if !v.inside(c) {
			return nil, fmt.Errorf("file allocation table: cluster %d follows in a chain, there are %d", c, len(v.fat))
		}
		if all = append(all, c); int64(len(all))*v.clusterSize > limit+v.clusterSize {
			return nil, fmt.Errorf("file allocation table: a chain of more than %d bytes", limit)
		}
	}
	return all, nil
}

// readChain is the content of clusters.
func (v *volume) readChain(clusters []uint32) ([]byte, error) {
	b := make([]byte, int64(len(clusters))*v.clusterSize)
	for i, c := range clusters {
		if _, err := v.r.ReadAt(b[int64(i)*v.clusterSize:][:v.clusterSize], v.clusterAt(c)); err != nil {
			return nil, fmt.Errorf("read cluster %d: %w", c, err)
		}
	}
	return b, nil
}

// allocate links n free clusters to a chain and returns them.
func (v *volume) allocate(n int64) ([]uint32, error) {
	var got []uint32
	for looked := 0; int64(len(got)) < n; looked++ {
		if looked == len(v.fat)-2 {
			return nil, fmt.Errorf("the file system is full: %d bytes are needed", n*v.clusterSize)
		}
		if v.fat[v.next]&clusterMask == 0 {
			got = append(got, v.next)
		}
		if v.next++; !v.inside(v.next) {
			v.next = 2
		}
	}
	for i, c := range got {
		if i+1 < len(got) {
			v.set(c, got[i+1])
		} else {
			v.set(c, endOfChain)
		}
	}
	return got, nil
}

// set keeps the four upper bits, which are reserved.
func (v *volume) set(cluster, to uint32) {
	if was := v.fat[cluster] & clusterMask; was == 0 && to != 0 {
		v.free--
	} else if was != 0 && to == 0 {
		v.free++
	}
	v.fat[cluster] = v.fat[cluster]&^clusterMask | to
	v.changed[int64(cluster)*4/sectorSize] = true
}

// flush writes what has changed in the table, to all its copies, and how much
// is free.
func (v *volume) flush() error {
	for sector := range v.changed {
		b := make([]byte, sectorSize)
		for i := range int64(sectorSize / 4) {
			if c := sector*sectorSize/4 + i; c < int64(len(v.fat)) {
				le.PutUint32(b[4*i:], v.fat[c])
			}
		}
		for i := range v.fats {
			if _, err := v.w.WriteAt(b, v.fatAt+i*v.fatSize+sector*sectorSize); err != nil {
				return fmt.Errorf("write file allocation table: %w", err)
			}
		}
	}
	clear(v.changed)
	if v.infoAt == 0 {
		return nil
	}
	b := make([]byte, 8)
	le.PutUint32(b, v.free)
	le.PutUint32(b[4:], v.next)
	if _, err := v.w.WriteAt(b, v.infoAt+488); err != nil {
		return fmt.Errorf("write free space: %w", err)
	}
	return nil
}
