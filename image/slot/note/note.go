// Package note is what a slot remembers of its own starts: how many in a row did
// not become well, and whether its root file system was found damaged. The boot
// loader counts only the starts of a version on trial.
//
// It is one sector, so that it is written as a whole or not at all, in the last
// block of the slot's hash partition, which nobody else uses; the EFI partition is
// not written at every start. It owns that block. It watches nothing.
//
// Nothing vouches for a note: who can write to the disk can write one. It makes a
// machine read its root file system, and no more. What becomes of the machine is
// decided by what was read.
package note

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

const (
	// Room is what is kept free at the end of a hash partition, in bytes: a block
	// of any disk.
	Room = 4096

	size      = 512
	signature = "writ\x00note1\x00"
	// MaxDamage is how long the sentence of a Note may be, in bytes.
	MaxDamage = 256

	hashAt, startsAt, lengthAt, damageAt, sumAt = 16, 48, 52, 56, size - 4
)

// Note is what a slot remembers.
type Note struct {
	// RootHash is that of the content which it is about, 64 hexadecimal digits.
	RootHash string
	// Starts are those in a row that did not become well, with the one under way.
	Starts uint32
	// Damage is what was wrong with the content when all of it was read; "" where
	// nothing was, or it was not read yet.
	Damage string
}

// Part is a hash partition.
type Part interface {
	io.ReaderAt
	io.WriterAt
	Size() int64 // in bytes
	Sync() error
}

// Read is the note of a hash partition of size bytes about a root hash. One that
// is not there, is damaged, or about other content is one of no starts.
func Read(r io.ReaderAt, partition int64, rootHash string) (Note, error) {
	none := Note{RootHash: rootHash}
	if partition < Room {
		return none, fmt.Errorf("read note: the partition has %d bytes", partition)
	}
	b := make([]byte, size)
	if _, err := r.ReadAt(b, partition-Room); err != nil {
		return none, fmt.Errorf("read note: %w", err)
	}
	n, ok := parse(b)
	if !ok || n.RootHash != rootHash {
		return none, nil
	}
	return n, nil
}

// Write replaces the note of a hash partition; it is on the disk when Write
// returns.
func Write(p Part, n Note) error {
	b, err := n.encode()
	if err == nil {
		err = put(p, b)
	}
	if err != nil {
		return fmt.Errorf("write note: %w", err)
	}
	return nil
}

// Erase leaves a hash partition without a note.
func Erase(p Part) error {
	if err := put(p, make([]byte, size)); err != nil {
		return fmt.Errorf("erase note: %w", err)
	}
	return nil
}

func put(p Part, b []byte) error {
	if p.Size() < Room {
		return fmt.Errorf("the partition has %d bytes", p.Size())
	}
	if _, err := p.WriteAt(b, p.Size()-Room); err != nil {
		return err
	}
	return p.Sync()
}

func (n Note) encode() ([]byte, error) {
	hash, err := hex.DecodeString(n.RootHash)
	if err != nil || len(hash) != startsAt-hashAt {
		return nil, fmt.Errorf("%q is no root hash", n.RootHash)
	}
	b, le, damage := make([]byte, size), binary.LittleEndian, printable(n.Damage)
	copy(b, signature)
	copy(b[hashAt:], hash)
	le.PutUint32(b[startsAt:], n.Starts)
	le.PutUint32(b[lengthAt:], uint32(len(damage))) //nolint:gosec // at most MaxDamage
	copy(b[damageAt:], damage)
	le.PutUint32(b[sumAt:], crc32.ChecksumIEEE(b[:sumAt]))
	return b, nil
}

func parse(b []byte) (Note, bool) {
	le := binary.LittleEndian
	if !bytes.HasPrefix(b, []byte(signature)) || le.Uint32(b[sumAt:]) != crc32.ChecksumIEEE(b[:sumAt]) {
		return Note{}, false
	}
	length := le.Uint32(b[lengthAt:])
	if length > MaxDamage {
		return Note{}, false
	}
	return Note{
		RootHash: hex.EncodeToString(b[hashAt:startsAt]), Starts: le.Uint32(b[startsAt:]),
		Damage: printable(string(b[damageAt:][:length])),
	}, true
}

// printable is what may be shown on a console, of bounded length.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), MaxDamage)]
}
