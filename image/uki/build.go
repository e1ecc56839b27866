package uki

import (
	"bytes"
	"fmt"
	"strings"
)

// Sections are the parts of a unified kernel image. What is empty is left out.
type Sections struct {
	OSRelease string // /etc/os-release of the image: boot menus show its name and version
	Cmdline   string // of the kernel; with Secure Boot nobody can change it
	Uname     string // release of the kernel
	Linux     []byte
	Initrd    []byte
	// SBAT are lines "component,generation,vendor,package,version,URL" by which
	// a build can be revoked; those of the stub and of the kernel are kept.
	SBAT string
}

const (
	sbatHead = "sbat,1,SBAT Version,sbat,1,https://github.com/rhboot/shim/blob/main/SBAT.md\n"
	// addonSBAT is what an addon must have, for the shim loads nothing without.
	addonSBAT = "uki-addon,1,UKI Addon,addon,1,https://www.freedesktop.org/software/systemd/man/latest/systemd-stub.html\n"
)

// Build puts the parts into systemd's linuxx64.efi.stub. The result is not signed.
func Build(stub []byte, s Sections) ([]byte, error) {
	f, err := openStub(stub)
	if err != nil {
		return nil, err
	}
	if len(s.Linux) == 0 {
		return nil, fmt.Errorf("build unified kernel image: no kernel")
	}
	sbat := s.SBAT
	if kernel, err := parsePE(s.Linux); err == nil {
		f.adaptNX(kernel)
		if own, ok := kernel.section(".sbat"); ok {
			sbat = sbatLines(string(kernel.data(own))) + sbat
		}
	}
	for _, part := range []struct {
		name  string
		data  []byte
		flags uint32
	}{
		{".osrel", []byte(s.OSRelease), flagData},
		{".cmdline", []byte(s.Cmdline), flagData},
		{".uname", []byte(s.Uname), flagData},
		{".linux", s.Linux, flagCode},
		{".initrd", s.Initrd, flagData},
	} {
		if len(part.data) == 0 {
			continue
		}
		if _, double := f.section(part.name); double {
			return nil, fmt.Errorf("build unified kernel image: the stub already has a section %s", part.name)
		}
		if err := f.add(part.name, part.data, part.flags); err != nil {
			return nil, fmt.Errorf("build unified kernel image: %w", err)
		}
	}
	if err := f.addSBAT(sbat); err != nil {
		return nil, fmt.Errorf("build unified kernel image: %w", err)
	}
	return f.b, nil
}

// Addon puts kernel arguments into systemd's addonx64.efi.stub. It goes beside
// the image, into its folder <name>.efi.extra.d, and the stub appends its
// arguments; with Secure Boot it needs a signature of its own.
func Addon(stub []byte, cmdline string) ([]byte, error) {
	f, err := openStub(stub)
	if err != nil {
		return nil, err
	}
	if err := f.add(".cmdline", []byte(cmdline), flagData); err != nil {
		return nil, fmt.Errorf("build addon: %w", err)
	}
	if err := f.addSBAT(addonSBAT); err != nil {
		return nil, fmt.Errorf("build addon: %w", err)
	}
	return f.b, nil
}

// Read takes a unified kernel image, or an addon, apart again. Linux and Initrd
// point into b.
func Read(b []byte) (Sections, error) {
	f, err := parsePE(b)
	if err != nil {
		return Sections{}, fmt.Errorf("read unified kernel image: %w", err)
	}
	got := map[string][]byte{}
	for _, s := range f.sections {
		if _, double := got[s.name]; double {
			return Sections{}, fmt.Errorf("read unified kernel image: two sections %q", s.name)
		}
		got[s.name] = f.data(s)
	}
	return Sections{
		OSRelease: string(got[".osrel"]), Cmdline: string(got[".cmdline"]), Uname: string(got[".uname"]),
		Linux: got[".linux"], Initrd: got[".initrd"], SBAT: sbatLines(string(got[".sbat"])),
	}, nil
}

// openStub reads a copy of the stub, and makes the room between its headers and
// its first section usable, which the format leaves unused.
func openStub(stub []byte) (*peFile, error) {
	f, err := parsePE(bytes.Clone(stub))
	if err != nil {
		return nil, fmt.Errorf("read stub: %w", err)
	}
	if _, size := f.certificates(); size != 0 {
		return nil, fmt.Errorf("read stub: it is signed, and would not be any more with sections added; take the unsigned one")
	}
	if at := le.Uint32(f.b[f.coff+8:]); at != 0 {
		return nil, fmt.Errorf("read stub: it has a symbol table; strip it")
	}
	file, _ := f.alignments()
	first := uint32(len(f.b))
	for _, s := range f.sections {
		if s.rawSize != 0 {
			first = min(first, s.rawAt)
		}
	}
	f.putOptional(optHeadersSize, min(uint32(alignUp(uint64(f.headersSize()), file)), first))
	// A checksum means nothing to firmware, and a signature is made without it.
	f.putOptional(optChecksum, 0)
	return f, nil
}

// adaptNX drops the stub's promise not to run memory that it writes to where the
// kernel inside does not give it: firmware that enforces it would stop the kernel.
func (f *peFile) adaptNX(kernel *peFile) {
	if le.Uint16(kernel.b[kernel.opt+optDLL:])&dllNX == 0 {
		at := f.b[f.opt+optDLL:]
		le.PutUint16(at, le.Uint16(at)&^dllNX)
	}
}

// addSBAT appends lines to the section that the stub has, or makes one.
func (f *peFile) addSBAT(lines string) error {
	own, ok := f.section(".sbat")
	if !ok {
		return f.add(".sbat", []byte(sbatHead+sbatLines(lines)+"\x00"), flagData)
	}
	return f.replace(".sbat", []byte(sbatHead+sbatLines(string(f.data(own)))+sbatLines(lines)+"\x00"))
}

// sbatLines is the content of an .sbat section without its first line, which
// there is to be only one of.
func sbatLines(s string) string {
	s = strings.TrimRight(s, "\x00\n")
	if s == "" {
		return ""
	}
	if first, rest, _ := strings.Cut(s, "\n"); strings.HasPrefix(first, "sbat,") {
		s = rest
	}
	if s == "" {
		return ""
	}
	return s + "\n"
}
