package esp

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf16"
)

const (
	attrReadOnly, attrHidden, attrSystem, attrLabel, attrFolder, attrArchive = 1, 2, 4, 8, 16, 32

	attrLong = attrReadOnly | attrHidden | attrSystem | attrLabel

	slotFree, slotEnd = 0xe5, 0x00
	unitsPerSlot      = 13 // of a long name
	lastLong          = 0x40

	// noTime is 1 January 1980, the first day there is.
	noTime = 0x0021
)

// entry is a file or folder of a folder. Its slots are numbered from the start
// of the folder; the last one is the short entry.
type entry struct {
	name        string
	short       [11]byte
	attributes  byte
	cluster     uint32
	size        uint32
	first, last int
}

func (e entry) folder() bool { return e.attributes&attrFolder != 0 }

// decodeFolder is the entries of a folder's content, and the first slot that
// was never used.
func decodeFolder(b []byte) (entries []entry, end int) {
	var long []byte // slots of a long name, the last part first
	slots := len(b) / entrySize
	for i := range slots {
		s := b[i*entrySize:][:entrySize]
		switch attributes := s[11] & 0x3f; {
		case s[0] == slotEnd:
			return entries, i
		case s[0] == slotFree:
			long = nil
		case attributes == attrLong:
			if s[0]&lastLong != 0 {
				long = nil
			}
			long = append(long, s...)
		case attributes&attrLabel != 0:
			long = nil
		default:
			e := entry{
				short: [11]byte(s[:11]), attributes: attributes, size: le.Uint32(s[28:]),
				cluster: uint32(le.Uint16(s[20:]))<<16 | uint32(le.Uint16(s[26:])),
				first:   i, last: i,
			}
			if name, ok := decodeLong(long, e.short); ok {
				e.name, e.first = name, i-len(long)/entrySize
			} else {
				e.name = decodeShort(e.short, s[12])
			}
			entries, long = append(entries, e), nil
		}
	}
	return entries, slots
}

// decodeLong joins the parts of a long name, if all of them are there and
// belong to the short one.
func decodeLong(b []byte, short [11]byte) (string, bool) {
	n := len(b) / entrySize
	if n == 0 || int(b[0]) != n|lastLong {
		return "", false
	}
	units := make([]uint16, 0, n*unitsPerSlot)
	for i := n - 1; i >= 0; i-- {
		s := b[i*entrySize:]
		if int(s[0]&^lastLong) != n-i || s[13] != checksum(short) {
			return "", false
		}
		for _, at := range unitPlaces {
			units = append(units, le.Uint16(s[at:]))
		}
	}
	for i, u := range units {
		if u == 0 {
			units = units[:i]
			break
		}
	}
	return string(utf16.Decode(units)), true
}

// unitPlaces is where the units of a name are in a slot.
var unitPlaces = [unitsPerSlot]int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30}

// decodeShort is the name 8.3; two bits say that a half of it is lower case.
func decodeShort(short [11]byte, lower byte) string {
	base, ext := strings.TrimRight(string(short[:8]), " "), strings.TrimRight(string(short[8:]), " ")
	if lower&0x08 != 0 {
		base = strings.ToLower(base)
	}
	if lower&0x10 != 0 {
		ext = strings.ToLower(ext)
	}
	if ext != "" {
		base += "." + ext
	}
	return base
}

func checksum(short [11]byte) byte {
	sum := byte(0)
	for _, c := range short {
		sum = sum>>1 | sum<<7
		sum += c
	}
	return sum
}

// encodeEntry is a short entry.
func encodeEntry(short [11]byte, attributes byte, cluster, size uint32) []byte {
	s := make([]byte, entrySize)
	copy(s, short[:])
	s[11] = attributes
	for _, at := range []int{16, 18, 24} { // made, read, written
		le.PutUint16(s[at:], noTime)
	}
	le.PutUint16(s[20:], uint16(cluster>>16))
	le.PutUint16(s[26:], uint16(cluster))
	le.PutUint32(s[28:], size)
	return s
}

// encodeName is the slots of a long name that come before its short entry.
func encodeName(name string, short [11]byte) []byte {
	units := utf16.Encode([]rune(name))
	n := (len(units) + unitsPerSlot - 1) / unitsPerSlot
	if len(units)%unitsPerSlot != 0 {
		units = append(units, 0)
	}
	for len(units) < n*unitsPerSlot {
		units = append(units, 0xffff)
	}
	var b []byte
	for i := n; i > 0; i-- {
		s := make([]byte, entrySize)
		s[0], s[11], s[13] = byte(i), attrLong, checksum(short)
		if i == n {
			s[0] |= lastLong
		}
		for k, at := range unitPlaces {
			le.PutUint16(s[at:], units[(i-1)*unitsPerSlot+k])
		}
		b = append(b, s...)
	}
	return b
}

// checkName allows what every system writes and reads alike.
func checkName(name string) error {
	bad := func(r rune) bool { return r < 0x20 || r > 0x7e || strings.ContainsRune(`"*/:<>?\|`, r) }
	if name == "" || len(name) > 255 || strings.IndexFunc(name, bad) >= 0 || strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") || name[0] == ' ' {
		return fmt.Errorf("%q cannot be a name on an EFI system partition: it must be of 1 to 255 ASCII characters other than \"*/:<>?\\| and not begin with a space or end with a space or dot", name)
	}
	return nil
}

// shortName is the name 8.3 for a name, and whether it says all of it. A name
// that does not fit is cut off and gets a number that no other one has.
func shortName(name string, taken []entry) (short [11]byte, whole bool) {
	base, ext := name, ""
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		base, ext = name[:i], name[i+1:]
	}
	clean := func(s string) string {
		return strings.Map(func(r rune) rune {
			switch {
			case r == ' ' || r == '.':
				return -1
			case strings.ContainsRune("+,;=[]", r):
				return '_'
			}
			return r
		}, strings.ToUpper(s))
	}
	b, x := clean(base), clean(ext)
	fits := len(b) > 0 && len(b) <= 8 && len(x) <= 3 && strings.EqualFold(b, base) && strings.EqualFold(x, ext)
	x = x[:min(len(x), 3)]
	for n := 0; ; n++ {
		tail := ""
		if n > 0 || !fits {
			tail = fmt.Sprintf("~%d", max(n, 1))
		}
		copy(short[:], bytes.Repeat([]byte{' '}, 11))
		copy(short[:], b[:min(len(b), 8-len(tail))]+tail)
		copy(short[8:], x)
		free := true
		for _, e := range taken {
			free = free && e.short != short
		}
		if free {
			return short, n == 0 && fits && name == decodeShort(short, 0)
		}
	}
}
