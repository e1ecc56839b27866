package tree

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeELF describes a small ELF file.
type fakeELF struct {
	kind    elf.Type // ET_DYN by default
	machine elf.Machine
	interp  string
	needed  []string
	runpath string
	dlopen  string // JSON
	modinfo string
}

type section struct {
	name string
	kind elf.SectionType
	link uint32
	data []byte
}

// bytes writes the file: header, one program header, sections, their table.
func (f fakeELF) bytes() []byte {
	if f.kind == 0 {
		f.kind = elf.ET_DYN
	}
	if f.machine == 0 {
		f.machine = elf.EM_X86_64
	}
	strs := []byte{0}
	str := func(s string) uint64 {
		at := len(strs)
		strs = append(append(strs, s...), 0)
		return uint64(at)
	}
	var dyn bytes.Buffer
	tag := func(t elf.DynTag, v uint64) {
		_ = binary.Write(&dyn, binary.LittleEndian, elf.Dyn64{Tag: int64(t), Val: v})
	}
	for _, n := range f.needed {
		tag(elf.DT_NEEDED, str(n))
	}
	if f.runpath != "" {
		tag(elf.DT_RUNPATH, str(f.runpath))
	}
	tag(elf.DT_NULL, 0)
	sections := []section{{}, {".dynstr", elf.SHT_STRTAB, 0, strs}, {".dynamic", elf.SHT_DYNAMIC, 1, dyn.Bytes()}}
	if f.dlopen != "" {
		var n bytes.Buffer
		_ = binary.Write(&n, binary.LittleEndian, []uint32{4, uint32(len(f.dlopen) + 1), noteDlopen})
		n.WriteString("FDO\x00" + f.dlopen + "\x00")
		n.Write(make([]byte, -n.Len()&3))
		sections = append(sections, section{".note.dlopen", elf.SHT_NOTE, 0, n.Bytes()})
	}
	if f.modinfo != "" {
		sections = append(sections, section{".modinfo", elf.SHT_PROGBITS, 0, []byte(f.modinfo)})
	}
	names := []byte{0}
	at := map[string]uint32{}
	for _, s := range append(sections, section{name: ".shstrtab"}) {
		at[s.name] = uint32(len(names))
		names = append(append(names, s.name...), 0)
	}
	sections = append(sections, section{".shstrtab", elf.SHT_STRTAB, 0, names})

	const body = 64 + 56
	data := []byte(f.interp + "\x00")
	var table bytes.Buffer
	for _, s := range sections {
		_ = binary.Write(&table, binary.LittleEndian, elf.Section64{Name: at[s.name], Type: uint32(s.kind), Link: s.link, Off: uint64(body + len(data)), Size: uint64(len(s.data))})
		data = append(data, s.data...)
	}
	h := elf.Header64{
		Type: uint16(f.kind), Machine: uint16(f.machine), Version: 1, Phoff: 64, Shoff: uint64(body + len(data)),
		Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1),
	}
	copy(h.Ident[:], elfMagic+"\x02\x01\x01")
	p := elf.Prog64{Type: uint32(elf.PT_NULL)}
	if f.interp != "" {
		p = elf.Prog64{Type: uint32(elf.PT_INTERP), Off: body, Filesz: uint64(len(f.interp) + 1)}
	}
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, h)
	_ = binary.Write(&b, binary.LittleEndian, p)
	b.Write(data)
	b.Write(table.Bytes())
	return b.Bytes()
}

func TestReadProgram(t *testing.T) {
	got, err := readProgram("usr/bin/x", fakeELF{
		interp: "/lib64/ld.so", needed: []string{"liba.so.1", "libb.so"}, runpath: "$ORIGIN/../lib:/opt",
		dlopen: `[{"soname":["libz.so.1"],"feature":"z","priority":"suggested"}]`,
	}.bytes())
	if err != nil {
		t.Fatal(err)
	}
	want := &summary{"/lib64/ld.so", []string{"liba.so.1", "libb.so"}, []string{"/usr/bin/../lib", "/opt"},
		[]Dlopen{{By: "usr/bin/x", Sonames: []string{"libz.so.1"}, Feature: "z", Priority: "suggested"}}}
	if d := cmp.Diff(want, &summary{got.interp, got.needed, got.search, got.dlopen}, cmp.AllowUnexported(summary{})); d != "" {
		t.Error(d)
	}
	if b, err := readProgram("x.ko", fakeELF{kind: elf.ET_REL, machine: elf.EM_386}.bytes()); b != nil || err != nil {
		t.Errorf("a kernel module: %v, %v", b, err)
	}
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"another machine": {fakeELF{machine: elf.EM_AARCH64}.bytes(), "not for x86-64"},
		"cut off":         {fakeELF{}.bytes()[:80], ""},
		"broken note":     {fakeELF{dlopen: "{"}.bytes(), ".note.dlopen"},
	} {
		if _, err := readProgram("x", c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// summary is program for go-cmp.
type summary struct {
	interp string
	needed []string
	search []string
	dlopen []Dlopen
}

func FuzzReadProgram(f *testing.F) {
	f.Add(fakeELF{interp: "/ld", needed: []string{"a"}, dlopen: `[]`}.bytes())
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = readProgram("x", b)
		_, _ = moduleNeeds(b)
	})
}

func TestClosure(t *testing.T) {
	src := Merged()
	add := func(at, origin string, f fakeELF) {
		t.Helper()
		if err := src.Add(at, Entry{Mode: 0o755, Data: Bytes(f.bytes()), Origin: origin}); err != nil {
			t.Fatal(err)
		}
	}
	const lib = "usr/lib/x86_64-linux-gnu/"
	add(lib+"ld-linux-x86-64.so.2", "libc6", fakeELF{})
	if err := src.Add("usr/lib64/ld-linux-x86-64.so.2", Entry{Mode: linkMode, Link: "../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", Origin: "libc6"}); err != nil {
		t.Fatal(err)
	}
	add("usr/bin/one", "one", fakeELF{interp: "/lib64/ld-linux-x86-64.so.2", needed: []string{"liba.so.1", "libown.so"}, runpath: "/usr/lib/one"})
	add(lib+"liba.so.1.2", "liba1", fakeELF{needed: []string{"libb.so.1"}, dlopen: `[{"soname":["libopt.so.9"],"feature":"opt","priority":"suggested"},{"soname":["libnone.so.1","libb.so.1"]}]`})
	if err := src.Add(lib+"liba.so.1", Entry{Mode: linkMode, Link: "liba.so.1.2", Origin: "liba1"}); err != nil {
		t.Fatal(err)
	}
	add("lib/x86_64-linux-gnu/libb.so.1", "libb1", fakeELF{}) // lands in /usr
	add("usr/lib/one/libown.so", "one", fakeELF{needed: []string{"libinner.so"}})
	add("usr/lib/one/libinner.so", "one", fakeELF{}) // found because the program looks there
	add("usr/lib/one/unused.so", "one", fakeELF{})

	keep, err := ParseList("keep", strings.NewReader("usr/bin/one"))
	if err != nil {
		t.Fatal(err)
	}
	got := Merged()
	if err := got.Copy(src, keep); err != nil {
		t.Fatal(err)
	}
	c, err := got.Closure(src)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"usr/lib/one/libinner.so", "usr/lib/one/libown.so", lib + "ld-linux-x86-64.so.2", lib + "liba.so.1.2", lib + "libb.so.1"}
	if d := cmp.Diff(want, c.Added); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Dlopen{{By: lib + "liba.so.1.2", Sonames: []string{"libopt.so.9"}, Feature: "opt", Priority: "suggested"}}, c.Absent); d != "" {
		t.Error(d)
	}
	for _, at := range []string{lib + "liba.so.1", "usr/lib64/ld-linux-x86-64.so.2"} {
		if _, ok := got.Get(at); !ok {
			t.Errorf("the link %s is missing", at)
		}
	}
	if again, err := got.Closure(src); err != nil || len(again.Added) > 0 {
		t.Errorf("a second time adds %v, %v", again.Added, err)
	}

	// All that is missing is said at once.
	add("usr/bin/two", "two", fakeELF{needed: []string{"libx.so.1", "liby.so.2", "libb.so.1"}})
	two, _ := src.Get("usr/bin/two")
	if err := got.Add("usr/bin/two", two); err != nil {
		t.Fatal(err)
	}
	_, err = got.Closure(src)
	const message = "usr/bin/two of two needs libx.so.1, which no package of the lock has\nusr/bin/two of two needs liby.so.2, which no package of the lock has"
	if err == nil || err.Error() != message {
		t.Errorf("error %v", err)
	}
}
