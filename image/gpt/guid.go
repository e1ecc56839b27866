package gpt

import (
	"encoding/hex"
	"fmt"
)

// GUID is an identifier in the order of its text form (RFC 9562). On the disk
// the first three groups are little-endian; only this package sees that order.
type GUID [16]byte

// Partition types of the Discoverable Partitions Specification (UAPI.2).
var (
	TypeESP             = MustGUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
	TypeRootX8664       = MustGUID("4f68bce3-e8cd-4db1-96e7-fbcaf984b709")
	TypeRootX8664Verity = MustGUID("2c7357ed-ebd2-46d9-aec1-23d437ec2bf5")
	TypeLinuxGeneric    = MustGUID("0fc63daf-8483-4772-8e79-3d69d8477de4")
)

// ParseGUID reads the text form, 8-4-4-4-12 hexadecimal digits.
func ParseGUID(s string) (GUID, error) {
	var g GUID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return GUID{}, fmt.Errorf("parse GUID %q: it is not written as 8-4-4-4-12 hexadecimal digits", s)
	}
	digits := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(g[:], []byte(digits)); err != nil {
		return GUID{}, fmt.Errorf("parse GUID %q: %w", s, err)
	}
	return g, nil
}

// MustGUID is ParseGUID for constants of the program; it panics.
func MustGUID(s string) GUID {
	g, err := ParseGUID(s)
	if err != nil {
		panic(err)
	}
	return g
}

// VerityGUIDs are the partition GUIDs that belong to a root hash of 32 bytes:
// the first half names the root partition, the second half the one that holds
// the hash tree (UAPI.2). Who knows the hash finds both partitions.
func VerityGUIDs(rootHash []byte) (root, verity GUID, err error) {
	if len(rootHash) != 32 {
		return GUID{}, GUID{}, fmt.Errorf("root hash has %d bytes, a SHA-256 hash has 32", len(rootHash))
	}
	return GUID(rootHash[:16]), GUID(rootHash[16:]), nil
}

// String is the text form in lower case.
func (g GUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", g[0:4], g[4:6], g[6:8], g[8:10], g[10:16])
}

// IsZero says that the GUID is unset; as a partition's type it means unused.
func (g GUID) IsZero() bool { return g == GUID{} }

// swapped exchanges text order and disk order.
func (g GUID) swapped() GUID {
	return GUID{
		g[3], g[2], g[1], g[0], g[5], g[4], g[7], g[6],
		g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15],
	}
}
