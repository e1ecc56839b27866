package uki

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// testStub is a program of two sections with room for others, as systemd's stubs
// are: one of code, and an .sbat where asked for.
func testStub(sbat string) []byte {
	const start = 64
	b := make([]byte, 1024)
	copy(b, "MZ")
	le.PutUint32(b[60:], start)
	copy(b[start:], "PE\x00\x00")
	le.PutUint16(b[start+4:], 0x8664)
	le.PutUint16(b[start+4+16:], 240)
	f := &peFile{b: b, coff: start + 4, opt: start + 24, table: start + 24 + 240}
	le.PutUint16(f.b[f.opt:], 0x20b)
	f.putOptional(optSectAlign, 4096)
	f.putOptional(optFileAlign, 512)
	f.putOptional(optHeadersSize, 1024)
	f.putOptional(optDirectories, 16)
	le.PutUint16(f.b[f.opt+optDLL:], 0x160)
	if err := f.add(".text", []byte("code"), flagCode); err != nil {
		panic(err)
	}
	if sbat != "" {
		if err := f.add(".sbat", []byte(sbat), flagData); err != nil {
			panic(err)
		}
	}
	return f.b
}

// stubs are the one of this test, and the real one where there is one.
func stubs(t *testing.T) map[string][]byte {
	all := map[string][]byte{"test": testStub(sbatHead + "stub,1,Stub,stub,1,https://example.org\n\x00")}
	if path := os.Getenv("WRIT_EFI_STUB"); path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(path)] = b
	}
	return all
}

func sample() Sections {
	return Sections{
		OSRelease: "ID=writ\n", Cmdline: "roothash=00 ro", Uname: "6.12.0",
		Linux: bytes.Repeat([]byte("kernel"), 1000), Initrd: bytes.Repeat([]byte("initrd"), 2000),
		SBAT: "writ,1,Writ,writ,1,https://example.org/writ\n",
	}
}

func TestBuildAndRead(t *testing.T) {
	for name, stub := range stubs(t) {
		before := bytes.Clone(stub)
		b, err := Build(stub, sample())
		if err != nil {
			t.Fatal(name, err)
		}
		if again, err := Build(stub, sample()); err != nil || !bytes.Equal(again, b) || !bytes.Equal(stub, before) {
			t.Errorf("%s: built twice, it is not the same, or the stub was changed", name)
		}
		got, err := Read(b)
		if err != nil {
			t.Fatal(name, err)
		}
		if !strings.HasSuffix(got.SBAT, sample().SBAT) || strings.Contains(got.SBAT, "SBAT Version") || strings.Count(got.SBAT, "\n") < 2 {
			t.Errorf("%s: SBAT %q", name, got.SBAT)
		}
		got.SBAT = sample().SBAT
		if !reflect.DeepEqual(got, sample()) {
			t.Errorf("%s: %+v", name, got)
		}
		f, err := parsePE(b)
		if err != nil {
			t.Fatal(err)
		}
		checkLayout(t, name, f)
	}
}

// checkLayout asks what a loader relies on.
func checkLayout(t *testing.T, name string, f *peFile) {
	t.Helper()
	file, sect := f.alignments()
	var rawEnd, virtualEnd uint64 = uint64(f.headersSize()), 1
	for _, s := range f.sections {
		if uint64(s.rawAt) != rawEnd || s.rawAt%file != 0 || s.rawSize%file != 0 {
			t.Errorf("%s: %s is in the file at %#x, %#x bytes; the one before it ends at %#x", name, s.name, s.rawAt, s.rawSize, rawEnd)
		}
		if uint64(s.virtualAt) < virtualEnd || s.virtualAt%sect != 0 {
			t.Errorf("%s: %s is in memory at %#x; the one before it ends at %#x", name, s.name, s.virtualAt, virtualEnd)
		}
		rawEnd, virtualEnd = s.rawEnd(), s.virtualEnd()
	}
	if rawEnd != uint64(len(f.b)) || uint64(f.optional(optImageSize)) != alignUp(virtualEnd, sect) {
		t.Errorf("%s: %d bytes in the file, %d in memory", name, len(f.b), f.optional(optImageSize))
	}
}

func TestNX(t *testing.T) {
	for _, nx := range []uint16{0, dllNX} {
		kernel := testStub("kernel,1,K,k,1,url")
		le.PutUint16(kernel[64+24+optDLL:], nx)
		b, err := Build(testStub(""), Sections{Linux: kernel})
		if err != nil {
			t.Fatal(err)
		}
		f, _ := parsePE(b)
		if got := le.Uint16(f.b[f.opt+optDLL:]); got != 0x60|nx {
			t.Errorf("kernel has %#x, image has %#x", nx, got)
		}
		if got, _ := Read(b); got.SBAT != "kernel,1,K,k,1,url\n" || !bytes.Equal(got.Linux, kernel) {
			t.Errorf("SBAT of the kernel: %q", got.SBAT)
		}
	}
}

func TestAddon(t *testing.T) {
	b, err := Addon(testStub(""), "console=ttyS1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(b)
	if want := (Sections{Cmdline: "console=ttyS1", SBAT: addonSBAT}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Addon(testStub(""), ""); err == nil {
		t.Error("an addon without arguments was made")
	}
}

func TestBuildRefuses(t *testing.T) {
	damaged := func(at int, v byte) []byte {
		b := testStub("x")
		b[at] = v
		return b
	}
	const coff, opt = 68, 88
	signed := testStub("x")
	le.PutUint32(signed[opt+optSecurity:], 1024)
	le.PutUint32(signed[opt+optSecurity+4:], uint32(len(signed)-1024))
	for want, stub := range map[string][]byte{
		"begin with MZ":   []byte("no"),
		"no PE header":    damaged(60, 0xff),
		"magic 0x10b":     damaged(opt+1, 1),
		"it is signed":    signed,
		"symbol table":    damaged(coff+8, 1),
		"aligned to 515":  damaged(opt+optFileAlign, 3),
		"no room":         damaged(opt+optHeadersSize+1, 2),
		"room for 512":    testStub(strings.Repeat("x,1\n", 127)),
		"already has":     func() []byte { f, _ := parsePE(testStub("x")); _ = f.add(".linux", []byte("x"), flagCode); return f.b }(),
		"section \".text": damaged(opt+240+21, 0xff),
	} {
		if _, err := Build(stub, sample()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := Build(testStub("x"), Sections{}); err == nil {
		t.Error("built without a kernel")
	}
}

// FuzzRead changes the headers of a signed image; what follows them is data.
func FuzzRead(f *testing.F) {
	whole := signedSample(f)
	key, cert := keyPair(f, "db")
	f.Add(whole[:600])
	f.Add(testStub("")[:600])
	f.Fuzz(func(t *testing.T, head []byte) {
		b := bytes.Clone(whole)
		copy(b, head)
		if err := Verify(b, nil); err == nil {
			t.Fatal("verified without a certificate")
		}
		if s, err := Read(b); err == nil && (len(s.Linux) > len(b) || len(s.Initrd) > len(b)) {
			t.Fatal("more was read than there is")
		}
		if built, err := Build(b, Sections{Linux: []byte("kernel")}); err == nil {
			if s, err := Read(built); err == nil && string(s.Linux) != "kernel" {
				t.Fatalf("kernel is %q", s.Linux)
			}
		}
		_, _ = Addon(b, "x")
		if signed, err := Sign(b, key, cert); err == nil {
			if err := Verify(signed, certs(cert)); err != nil {
				t.Fatalf("just signed: %v", err)
			}
		}
	})
}

func FuzzSignature(f *testing.F) {
	b := signedSample(f)
	p, err := parsePE(b)
	if err != nil {
		f.Fatal(err)
	}
	at, _ := p.certificates()
	hash, err := p.imageHash()
	if err != nil {
		f.Fatal(err)
	}
	_, cert := keyPair(f, "db")
	f.Add(b[at+certificateHeader:])
	hash[0] ^= 1
	f.Fuzz(func(t *testing.T, b []byte) {
		if verifySigned(b, hash, certs(cert)) == nil {
			t.Fatal("a signature of another program is believed")
		}
	})
}
