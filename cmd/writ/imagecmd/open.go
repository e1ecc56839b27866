// Package imagecmd is what `writ image` does with images that were built: it
// looks into disks and bundles, proves them, and writes into a disk who the
// machine is that will start from it, with the authority of the cluster that a
// first server begins.
//
// It watches nothing. It owns nothing: of an image it changes /writ/node.yaml of
// the EFI system partition, and nothing else. A kubeconfig that it makes takes
// the place of no other file.
package imagecmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/writ-os/writ/image/esp"
	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/uki"
)

// Kind is what a file is, by its content.
type Kind string

// The kinds.
const (
	Disk   Kind = "disk"
	Bundle Kind = "bundle"
)

// open opens a file and says what it is. What has to be unpacked first is
// refused, with how.
func open(path string, flag int) (*os.File, Kind, int64, error) {
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, "", 0, err
	}
	size, err := f.Seek(0, io.SeekEnd) // of a device too
	var kind Kind
	if err == nil {
		kind, err = kindOf(f, path)
	}
	if err != nil {
		_ = f.Close()
		return nil, "", 0, err
	}
	return f, kind, size, nil
}

func kindOf(f io.ReaderAt, path string) (Kind, error) {
	head := make([]byte, 1024)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	head = head[:n]
	switch {
	case len(head) >= 520 && string(head[512:520]) == "EFI PART":
		return Disk, nil
	case bytes.HasPrefix(head, []byte("manifest.json\x00")):
		return Bundle, nil
	case bytes.HasPrefix(head, []byte("QFI\xfb")):
		return "", fmt.Errorf("%s is a qcow2 image: take the .raw.zst instead, or 'qemu-img convert -O raw %s disk.raw' first; a virtual machine can also be told by the credential node.config", path, path)
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		return "", fmt.Errorf("%s is compressed: unpack it first, by 'zstd -d %s'", path, path)
	}
	return "", fmt.Errorf("%s is neither a disk image nor a bundle of Writ", path)
}

// firstKernel is the kernel image of a disk that was never started.
const firstKernel = "EFI/Linux/writ_1.efi"

// kernel reads the kernel image of a disk.
func kernel(f io.ReaderAt, size int64) (uki.Sections, error) {
	offset, length, err := esp.Locate(f, size)
	if err != nil {
		return uki.Sections{}, err
	}
	b, err := esp.Get(f, offset, length, firstKernel)
	if err != nil {
		return uki.Sections{}, err
	}
	return uki.Read(b)
}

// rootHash is that on a kernel's command line.
func rootHash(line string) string {
	for _, word := range strings.Fields(line) {
		if h, ok := strings.CutPrefix(word, "roothash="); ok {
			return h
		}
	}
	return ""
}

// section is a partition of a disk.
func section(f io.ReaderAt, p gpt.Partition) *io.SectionReader {
	return io.NewSectionReader(f, p.Offset(), p.Size())
}
