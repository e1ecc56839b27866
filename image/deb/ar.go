package deb

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	arMagic      = "!<arch>\n"
	arHeaderSize = 60
	// maxMembers is far above the three of deb(5); more is no package.
	maxMembers = 16
)

// member is one file of an ar archive.
type member struct {
	name string
	data *io.SectionReader
}

// readAr lists the members of the ar archive of size bytes. deb(5) allows
// short names only, without the extensions of GNU and BSD.
func readAr(r io.ReaderAt, size int64) ([]member, error) {
	magic := make([]byte, len(arMagic))
	if _, err := r.ReadAt(magic, 0); err != nil || string(magic) != arMagic {
		return nil, errors.New("it is no ar archive")
	}
	var all []member
	for at := int64(len(arMagic)); at < size; {
		if len(all) == maxMembers {
			return nil, fmt.Errorf("the archive has more than %d members", maxMembers)
		}
		m, next, err := readMember(r, at, size)
		if err != nil {
			return nil, fmt.Errorf("member at byte %d: %w", at, err)
		}
		all, at = append(all, m), next
	}
	return all, nil
}

func readMember(r io.ReaderAt, at, size int64) (member, int64, error) {
	h := make([]byte, arHeaderSize)
	if at+arHeaderSize > size {
		return member{}, 0, errors.New("its header is cut off")
	}
	if _, err := r.ReadAt(h, at); err != nil {
		return member{}, 0, fmt.Errorf("read header: %w", err)
	}
	if h[58] != '`' || h[59] != '\n' {
		return member{}, 0, errors.New("its header is damaged")
	}
	n, err := strconv.ParseUint(strings.TrimRight(string(h[48:58]), " "), 10, 40)
	if err != nil {
		return member{}, 0, errors.New("its size is no number")
	}
	data := at + arHeaderSize
	if int64(n) > size-data {
		return member{}, 0, fmt.Errorf("it has %d bytes and the archive ends after %d", n, size-data)
	}
	// Debian writes names without the trailing slash of GNU ar; both are read.
	name := strings.TrimSuffix(strings.TrimRight(string(h[:16]), " "), "/")
	if name == "" {
		return member{}, 0, errors.New("it has no name")
	}
	next := data + int64(n)
	next += next % 2 // members begin at even bytes
	return member{name: name, data: io.NewSectionReader(r, data, int64(n))}, next, nil
}
