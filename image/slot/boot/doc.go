// Package boot is what the boot loader sees of a node's versions: the unified
// kernel images (UKIs) in EFI/Linux of the EFI system partition, by names that
// systemd-boot counts with, and the order in which it starts them.
//
// It is the part of slot that the initrd needs too, and is kept apart so that the
// initrd carries no more. It owns nothing and watches nothing: Read reads, Boot
// and Alternatives and GiveWay decide.
package boot

import "io"

// ESP is the directory EFI/Linux of the EFI system partition. Names are paths
// below it, with slashes. Renaming and removing last when Sync has returned.
type ESP interface {
	// List returns the names of all files.
	List() ([]string, error)
	// Open reads a file.
	Open(name string) (File, error)
	// Create writes a file and its directory; the content lasts when it returns.
	Create(name string, r io.Reader) error
	// Rename gives a file another name in the same directory.
	Rename(from, to string) error
	// Remove removes a file, and its directory when that becomes empty.
	Remove(name string) error
	Sync() error
}

// File is a file of an ESP that is read.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
}
