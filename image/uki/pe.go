package uki

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

const (
	// maxFile bounds every file that is read; an ESP of 256 MiB holds no larger one.
	maxFile     = 256 << 20
	maxSections = 96 // the limit of the format

	sectionHeader = 40 // bytes of a section's header

	// Places in the optional header of PE32+.
	optInitialized = 8
	optSectAlign   = 32
	optFileAlign   = 36
	optImageSize   = 56
	optHeadersSize = 60
	optChecksum    = 64
	optDLL         = 70
	optDirectories = 108
	optSecurity    = 112 + 4*8 // the fifth directory: the signatures
	optMinimum     = optSecurity + 8

	flagCode, flagData, flagRead = 0x00000020, 0x00000040, 0x40000000

	dllNX = 0x0100 // the program does not run memory that it writes to
)

var le = binary.LittleEndian

// peFile is an EFI program whose headers have been checked: the fields point
// into b. The names are those of the PE specification.
type peFile struct {
	b        []byte
	coff     int // offset of the COFF header
	opt      int // offset of the optional header
	sections []peSection
	table    int // offset of the section headers
}

type peSection struct {
	name                   string
	virtualSize, virtualAt uint32
	rawSize, rawAt         uint32
}

func (s peSection) rawEnd() uint64     { return uint64(s.rawAt) + uint64(s.rawSize) }
func (s peSection) virtualEnd() uint64 { return uint64(s.virtualAt) + uint64(s.virtualSize) }

func (f *peFile) optional(at int) uint32       { return le.Uint32(f.b[f.opt+at:]) }
func (f *peFile) putOptional(at int, v uint32) { le.PutUint32(f.b[f.opt+at:], v) }
func (f *peFile) headersSize() uint32          { return f.optional(optHeadersSize) }
func (f *peFile) alignments() (file, sect uint32) {
	return f.optional(optFileAlign), f.optional(optSectAlign)
}

// certificates is where the signatures lie; size 0 says that there are none.
func (f *peFile) certificates() (at, size uint32) {
	return f.optional(optSecurity), f.optional(optSecurity + 4)
}

// parsePE checks everything the other functions rely on: that all headers,
// sections and signatures lie inside the file, behind each other.
func parsePE(b []byte) (*peFile, error) {
	if len(b) > maxFile {
		return nil, fmt.Errorf("EFI program of %d bytes, at most %d are read", len(b), maxFile)
	}
	if len(b) < 64 || string(b[:2]) != "MZ" {
		return nil, fmt.Errorf("not an EFI program: it does not begin with MZ")
	}
	start := uint64(le.Uint32(b[60:]))
	if start+24+optMinimum > uint64(len(b)) || string(b[start:start+4]) != "PE\x00\x00" {
		return nil, fmt.Errorf("not an EFI program: no PE header at byte %d", start)
	}
	f := &peFile{b: b, coff: int(start) + 4, opt: int(start) + 24}
	count, optSize := int(le.Uint16(b[f.coff+2:])), int(le.Uint16(b[f.coff+16:]))
	f.table = f.opt + optSize
	if le.Uint16(b[f.opt:]) != 0x20b || optSize < optMinimum || f.optional(optDirectories) < 5 {
		return nil, fmt.Errorf("not a 64-bit EFI program: its header has magic %#x and %d bytes", le.Uint16(b[f.opt:]), optSize)
	}
	file, sect := f.alignments()
	if count == 0 || count > maxSections || file < 8 || file > 1<<16 || sect > 1<<21 || sect < file || file&(file-1) != 0 || sect&(sect-1) != 0 {
		return nil, fmt.Errorf("EFI program with %d sections, aligned to %d and %d", count, file, sect)
	}
	headers := uint64(f.headersSize())
	if uint64(f.table+count*sectionHeader) > headers || headers > uint64(len(b)) {
		return nil, fmt.Errorf("EFI program: headers of %d bytes for %d sections", headers, count)
	}
	for i := range count {
		h := b[f.table+i*sectionHeader:]
		name, _, _ := bytes.Cut(h[:8], []byte{0})
		s := peSection{
			name: string(name), virtualSize: le.Uint32(h[8:]), virtualAt: le.Uint32(h[12:]),
			rawSize: le.Uint32(h[16:]), rawAt: le.Uint32(h[20:]),
		}
		if s.rawSize != 0 && (uint64(s.rawAt) < headers || s.rawEnd() > uint64(len(b))) {
			return nil, fmt.Errorf("EFI program: section %q is at bytes %d to %d of %d", s.name, s.rawAt, s.rawEnd(), len(b))
		}
		f.sections = append(f.sections, s)
	}
	if at, size := f.certificates(); size != 0 && (uint64(at) < headers || uint64(at)+uint64(size) != uint64(len(b)) || at%8 != 0) {
		return nil, fmt.Errorf("EFI program: signatures at byte %d, %d bytes of %d", at, size, len(b))
	}
	return f, nil
}

// data is the content of a section, without what pads it.
func (f *peFile) data(s peSection) []byte {
	if s.rawSize == 0 {
		return nil
	}
	return f.b[s.rawAt:][:min(s.rawSize, s.virtualSize)]
}

func (f *peFile) section(name string) (peSection, bool) {
	for _, s := range f.sections {
		if s.name == name {
			return s, true
		}
	}
	return peSection{}, false
}

// add appends a section behind the last one, in the file and in memory.
func (f *peFile) add(name string, data []byte, flags uint32) error {
	file, sect := f.alignments()
	at := f.table + len(f.sections)*sectionHeader
	if len(f.sections) == maxSections || uint64(at+sectionHeader) > uint64(f.headersSize()) {
		return fmt.Errorf("add section %s: the headers of the stub have no room for it", name)
	}
	if len(name) > 8 || len(data) == 0 {
		return fmt.Errorf("add section %q: %d bytes", name, len(data))
	}
	end := uint64(f.headersSize())
	for _, s := range f.sections {
		end = max(end, s.virtualEnd())
	}
	s := peSection{
		name: name, virtualSize: uint32(len(data)), virtualAt: uint32(alignUp(end, sect)),
		rawAt: uint32(alignUp(uint64(len(f.b)), file)), rawSize: uint32(alignUp(uint64(len(data)), file)),
	}
	if s.rawEnd() > maxFile || alignUp(end, sect)+uint64(len(data)) > maxFile {
		return fmt.Errorf("add section %s: the file would have %d bytes, at most %d are possible", name, s.rawEnd(), maxFile)
	}
	f.b = append(f.b, make([]byte, int(s.rawAt)-len(f.b))...)
	f.b = append(f.b, data...)
	f.b = append(f.b, make([]byte, int(s.rawSize)-len(data))...)
	h := f.b[at : at+sectionHeader]
	clear(h)
	copy(h, name)
	le.PutUint32(h[8:], s.virtualSize)
	le.PutUint32(h[12:], s.virtualAt)
	le.PutUint32(h[16:], s.rawSize)
	le.PutUint32(h[20:], s.rawAt)
	le.PutUint32(h[36:], flags|flagRead)
	f.sections = append(f.sections, s)
	le.PutUint16(f.b[f.coff+2:], uint16(len(f.sections)))
	f.putOptional(optInitialized, f.optional(optInitialized)+s.virtualSize)
	f.putOptional(optImageSize, uint32(alignUp(s.virtualEnd(), sect)))
	return nil
}

// replace gives a section of the stub other content, where it has the room.
func (f *peFile) replace(name string, data []byte) error {
	for i, s := range f.sections {
		if s.name != name {
			continue
		}
		if len(data) > int(s.rawSize) {
			return fmt.Errorf("section %s has room for %d bytes, %d are needed", name, s.rawSize, len(data))
		}
		raw := f.b[s.rawAt:s.rawEnd()]
		clear(raw[copy(raw, data):])
		f.sections[i].virtualSize = uint32(len(data))
		le.PutUint32(f.b[f.table+i*sectionHeader+8:], uint32(len(data)))
		return nil
	}
	return fmt.Errorf("there is no section %s", name)
}

func alignUp(n uint64, to uint32) uint64 { return (n + uint64(to) - 1) &^ (uint64(to) - 1) }
