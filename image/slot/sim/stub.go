package sim

import "encoding/binary"

// stub is an EFI program that does nothing: what systemd's stubs look like from
// outside, with room for more sections.
func stub() []byte {
	const (
		head     = 64       // where the PE header lies
		coff     = head + 4 // after its signature
		optional = coff + 20
		optSize  = 112 + 16*8
		sections = optional + optSize
		headers  = 1024
	)
	b, le := make([]byte, headers+512), binary.LittleEndian
	copy(b, "MZ")
	le.PutUint32(b[60:], head)
	copy(b[head:], "PE\x00\x00")
	le.PutUint16(b[coff:], 0x8664)
	le.PutUint16(b[coff+2:], 1) // section
	le.PutUint16(b[coff+16:], optSize)
	le.PutUint16(b[coff+18:], 0x22)
	le.PutUint16(b[optional:], 0x20b)
	le.PutUint32(b[optional+32:], 4096)    // alignment in memory,
	le.PutUint32(b[optional+36:], 512)     // and in the file
	le.PutUint32(b[optional+56:], 2*4096)  // size in memory
	le.PutUint32(b[optional+60:], headers) // of the headers
	le.PutUint32(b[optional+108:], 16)     // directories
	copy(b[sections:], ".text")
	for i, v := range []uint32{1, 4096, 512, headers} {
		le.PutUint32(b[sections+8+4*i:], v)
	}
	le.PutUint32(b[sections+36:], 0x60000020)
	return b
}
