package esp

import (
	"fmt"
	"slices"
	"strings"
)

// File is a file of an ESP: its path, with slashes and none at the start.
type File struct {
	Path string
	Data []byte
}

const (
	reservedSectors = 32
	infoSector      = 1
	backupSector    = 6 // of the boot sector; the free space follows it

	// minClusters is where FAT32 begins: with fewer, firmware reads FAT16.
	minClusters = 65525
	label       = "ESP        "
)

// Build makes a file system of size bytes at offset of an image, where it must
// be all zeros, and puts the files into it, in the order of their paths.
func Build(image Image, offset, size int64, volumeID uint32, files []File) error {
	if err := format(image, offset, size, volumeID); err != nil {
		return fmt.Errorf("build ESP: %w", err)
	}
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	v, err := open(image, image, offset, size)
	if err != nil {
		return fmt.Errorf("build ESP: %w", err)
	}
	for i, f := range sorted {
		if i > 0 && strings.EqualFold(sorted[i-1].Path, f.Path) {
			return fmt.Errorf("build ESP: %s is there twice", f.Path)
		}
		if err := v.put(f.Path, f.Data); err != nil {
			return fmt.Errorf("build ESP: put %s: %w", f.Path, err)
		}
	}
	return nil
}

// layout is the sectors of a cluster and of a table, for a file system of so
// many sectors. The clusters are as large as FAT32 allows, up to a page, and
// begin at a multiple of their size.
func layout(sectors int64) (perCluster, fatSectors int64, err error) {
	for perCluster = 8; perCluster > 0; perCluster /= 2 {
		clusters := (sectors - reservedSectors) / perCluster
		fatSectors = ((clusters+2)*4 + sectorSize - 1) / sectorSize
		fatSectors = (fatSectors + 7) &^ 7
		if clusters = (sectors - reservedSectors - 2*fatSectors) / perCluster; clusters >= minClusters {
			if clusters > maxClusters {
				break
			}
			return perCluster, fatSectors, nil
		}
	}
	return 0, 0, fmt.Errorf("%d bytes are too few or too many for a FAT32 file system of sectors of %d bytes", sectors*sectorSize, sectorSize)
}

func format(image Image, offset, size int64, volumeID uint32) error {
	sectors := size / sectorSize
	perCluster, fatSectors, err := layout(sectors)
	if err != nil {
		return err
	}
	boot := make([]byte, sectorSize)
	copy(boot, "\xeb\x58\x90MSWIN4.1") // the name that the specification asks for
	le.PutUint16(boot[11:], sectorSize)
	boot[13] = byte(perCluster)
	le.PutUint16(boot[14:], reservedSectors)
	boot[16] = 2    // tables
	boot[21] = 0xf8 // a fixed disk
	le.PutUint16(boot[24:], 63)
	le.PutUint16(boot[26:], 255)
	le.PutUint32(boot[28:], uint32(offset/sectorSize))
	le.PutUint32(boot[32:], uint32(sectors))
	le.PutUint32(boot[36:], uint32(fatSectors))
	le.PutUint32(boot[44:], 2) // cluster of the root folder
	le.PutUint16(boot[48:], infoSector)
	le.PutUint16(boot[50:], backupSector)
	boot[64], boot[66] = 0x80, 0x29
	le.PutUint32(boot[67:], volumeID)
	copy(boot[71:], label)
	copy(boot[82:], "FAT32   ")
	boot[510], boot[511] = 0x55, 0xaa

	clusters := (sectors - reservedSectors - 2*fatSectors) / perCluster
	info := make([]byte, sectorSize)
	copy(info, "RRaA")
	copy(info[484:], "rrAa")
	le.PutUint32(info[488:], uint32(clusters-1))
	le.PutUint32(info[492:], 3)
	info[510], info[511] = 0x55, 0xaa

	table := make([]byte, 12)
	le.PutUint32(table, 0x0ffffff8)
	le.PutUint32(table[4:], endOfChain)
	le.PutUint32(table[8:], endOfChain)

	volume := encodeEntry([11]byte([]byte(label)), attrLabel, 0, 0)
	for _, part := range []struct {
		sector int64
		b      []byte
	}{
		{0, boot}, {infoSector, info}, {backupSector, boot}, {backupSector + infoSector, info},
		{reservedSectors, table}, {reservedSectors + fatSectors, table}, {reservedSectors + 2*fatSectors, volume},
	} {
		if _, err := image.WriteAt(part.b, offset+part.sector*sectorSize); err != nil {
			return err
		}
	}
	return nil
}
