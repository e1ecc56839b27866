package tree

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// program is what a program or a library says it loads.
type program struct {
	interp string
	needed []string
	// search are the directories of DT_RUNPATH or DT_RPATH, without "$ORIGIN".
	search []string
	dlopen []Dlopen
}

// Dlopen is one library that a file loads only when it wants to use it, as it
// says itself in its ELF notes. Specification: uapi-group.org, ELF dlopen
// metadata.
type Dlopen struct {
	By       string   `json:"-"` // the file that loads
	Sonames  []string `json:"soname"`
	Feature  string   `json:"feature"`
	Priority string   `json:"priority"` // required, recommended or suggested
}

const elfMagic = "\x7fELF"

// readProgram reads an ELF file at a path. It is nil for what loads nothing by
// itself: kernel modules and static programs.
func readProgram(at string, b []byte) (*program, error) {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return nil, nil
	}
	if f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 {
		return nil, fmt.Errorf("it is for %v, not for x86-64", f.Machine)
	}
	bin := &program{}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < 4096 {
			name := make([]byte, p.Filesz)
			if _, err := p.ReadAt(name, 0); err != nil {
				return nil, err
			}
			bin.interp = string(bytes.TrimRight(name, "\x00"))
		}
	}
	if bin.needed, err = f.DynString(elf.DT_NEEDED); err != nil {
		return nil, err
	}
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		found, err := f.DynString(tag)
		if err != nil {
			return nil, err
		}
		for _, list := range found {
			for dir := range strings.SplitSeq(list, ":") {
				bin.search = append(bin.search, strings.NewReplacer("$ORIGIN", "/"+path.Dir(at), "${ORIGIN}", "/"+path.Dir(at)).Replace(dir))
			}
		}
	}
	bin.dlopen, err = readDlopen(at, f)
	return bin, err
}

const noteDlopen = 0x407c0c0a

// readDlopen reads the notes of the vendor "FDO" in .note.dlopen: JSON lists.
func readDlopen(at string, f *elf.File) ([]Dlopen, error) {
	s := f.Section(".note.dlopen")
	if s == nil {
		return nil, nil
	}
	b, err := s.Data()
	if err != nil {
		return nil, err
	}
	var all []Dlopen
	for len(b) >= 12 {
		name, desc, kind := f.ByteOrder.Uint32(b), f.ByteOrder.Uint32(b[4:]), f.ByteOrder.Uint32(b[8:])
		b = b[12:]
		// Name and text are padded to 4 bytes.
		end := (uint64(name)+3)&^3 + (uint64(desc)+3)&^3
		if end > uint64(len(b)) {
			return nil, fmt.Errorf("its section .note.dlopen is cut off")
		}
		text := b[(name+3)&^3:][:desc]
		b = b[end:]
		if kind != noteDlopen {
			continue
		}
		var list []Dlopen
		if err := json.Unmarshal(bytes.TrimRight(text, "\x00"), &list); err != nil {
			return nil, fmt.Errorf("its section .note.dlopen: %w", err)
		}
		for _, d := range list {
			d.By = at
			all = append(all, d)
		}
	}
	return all, nil
}
