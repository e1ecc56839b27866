package uki

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
)

// Variables of the firmware, as Linux names their files: what is in them is
// preceded by four bytes of attributes.
const (
	secureBootVariable = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
	databaseVariable   = "db-d719b2cb-3d3a-4596-a3bc-dad00e67656f"
	variableHead       = 4
)

// EFI_CERT_SHA256, in the order of its bytes in memory.
var guidSHA256 = [16]byte{0x26, 0x16, 0xc4, 0xc1, 0x4c, 0x50, 0x92, 0x40, 0xac, 0xa9, 0x41, 0xf9, 0x36, 0x93, 0x43, 0x28}

// Accepted says whether the firmware of this machine, whose variables are in the
// directory efivars (efivarfs), starts an EFI program. Without Secure Boot it
// starts all. What its list dbx takes back is not looked at.
func Accepted(efivars string, pe []byte) error {
	on, err := SecureBoot(efivars)
	if err != nil || !on {
		return err
	}
	db, err := readVariable(efivars, databaseVariable)
	if err != nil {
		return err
	}
	f, err := parsePE(pe)
	if err != nil {
		return err
	}
	hash, err := f.imageHash()
	if err != nil {
		return err
	}
	for h := range listed(db, guidSHA256) {
		if bytes.Equal(h, hash[:]) {
			return nil
		}
	}
	var certs []*x509.Certificate
	for der := range listed(db, guidX509) {
		if c, err := x509.ParseCertificate(der); err == nil {
			certs = append(certs, c)
		}
	}
	if err := Verify(pe, certs); err != nil {
		return fmt.Errorf("the firmware of this machine, which has Secure Boot on, would not start it: %w", err)
	}
	return nil
}

// SecureBoot says whether the firmware of this machine starts only what is signed.
// A machine without EFI variables has no Secure Boot.
func SecureBoot(efivars string) (bool, error) {
	on, err := readVariable(efivars, secureBootVariable)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && !bytes.Equal(on, []byte{0}), err
}

func readVariable(efivars, name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(efivars, name))
	if err != nil {
		return nil, fmt.Errorf("read variable of the firmware: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err == nil && len(b) < variableHead {
		err = errors.New("it is cut off")
	}
	if err != nil {
		return nil, fmt.Errorf("read variable of the firmware %s: %w", name, err)
	}
	return b[variableHead:], nil
}

// listed are the entries of one kind in EFI_SIGNATURE_LISTs, without their
// owners. It ends at what is damaged.
func listed(lists []byte, kind [16]byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for b := lists; len(b) >= listHead; {
			size, header, entry := uint64(le.Uint32(b[16:])), uint64(le.Uint32(b[20:])), uint64(le.Uint32(b[24:]))
			if size < listHead || size > uint64(len(b)) || listHead+header > size || entry <= ownerSize {
				return
			}
			entries := b[listHead+header : size]
			for [16]byte(b) == kind && uint64(len(entries)) >= entry {
				if !yield(entries[ownerSize:entry]) {
					return
				}
				entries = entries[entry:]
			}
			b = b[size:]
		}
	}
}
