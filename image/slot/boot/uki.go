package boot

import (
	"bytes"
	"debug/pe"
	"errors"
	"fmt"
	"strings"
)

// maxCommandLine bounds what is read of a UKI, in bytes: twice what the kernel
// takes.
const maxCommandLine = 8 << 10

var errNoCommandLine = errors.New("has no command line")

// commandLine reads the section .cmdline of a PE file, as systemd-stub does.
func commandLine(esp ESP, name string) (string, error) {
	f, err := esp.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := CommandLine(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return line, nil
}

// CommandLine is the kernel command line inside a UKI, or of an addon for one.
// A file of which a part is missing is refused.
func CommandLine(f File) (string, error) {
	p, err := pe.NewFile(f)
	if err != nil {
		return "", fmt.Errorf("is no PE file: %w", err)
	}
	for _, s := range p.Sections {
		if end := int64(s.Offset) + int64(s.Size); end > f.Size() {
			return "", fmt.Errorf("is cut off: it has %d bytes, and its section %q ends at %d", f.Size(), s.Name, end)
		}
	}
	s := p.Section(".cmdline")
	if s == nil || s.Size > maxCommandLine {
		return "", errNoCommandLine
	}
	b, err := s.Data()
	if err != nil {
		return "", fmt.Errorf("read command line: %w", err)
	}
	if s.VirtualSize < s.Size {
		b = b[:s.VirtualSize]
	}
	b, _, _ = bytes.Cut(b, []byte{0})
	return strings.TrimSpace(string(b)), nil
}

// Argument is the value of the last argument of that name on a kernel command
// line.
func Argument(line, name string) string {
	value := ""
	for a := range strings.FieldsSeq(line) {
		if k, v, ok := strings.Cut(a, "="); ok && k == name {
			value = v
		}
	}
	return value
}
