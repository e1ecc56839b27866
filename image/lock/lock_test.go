package lock

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var sum = strings.Repeat("0123456789abcdef", 4)

func sample() *Lock {
	return &Lock{
		Suites: []Suite{
			{Name: "trixie", Archive: "debian", Date: time.Date(2026, 9, 12, 7, 55, 41, 0, time.UTC)},
			{Name: "trixie-security", Archive: "debian-security", Date: time.Date(2026, 11, 21, 0, 53, 3, 0, time.UTC)},
		},
		Packages: []Package{
			{Name: "kmod", Version: "34.2-2", Arch: "amd64", Path: "debian/pool/main/k/kmod/kmod_34.2-2_amd64.deb", Size: 95704, SHA256: sum},
			{Name: "zlib1g", Version: "1:1.3.dfsg+really1.3.1-1+b1", Arch: "amd64", Path: "debian-security/pool/z/zlib1g_1%3a1_amd64.deb", Size: 1, SHA256: sum},
		},
	}
}

func TestWriteAndParse(t *testing.T) {
	want := sample()
	var b bytes.Buffer
	if err := want.Write(&b); err != nil {
		t.Fatal(err)
	}
	got, err := Parse("packages.lock", bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if p, ok := got.Find("zlib1g"); !ok || p.String() != "zlib1g 1:1.3.dfsg+really1.3.1-1+b1" {
		t.Errorf("Find = %v, %v", p, ok)
	}
	if _, ok := got.Find("zlib"); ok {
		t.Error("Find has found what is not there")
	}
}

func TestParseRefuses(t *testing.T) {
	const suite = "suite trixie debian 2026-09-12T07:55:41Z\n"
	line := func(change ...string) string {
		l := "kmod 34.2-2 amd64 debian/pool/k/kmod_34.2-2_amd64.deb 95704 " + sum
		return suite + strings.NewReplacer(change...).Replace(l) + "\n"
	}
	for name, c := range map[string]struct{ in, want string }{
		"fields":          {suite + "kmod 34.2-2\n", "f:2: a package has 6 fields (name version arch path size sha256), here are 2"},
		"name":            {line("kmod 34", "../kmod 34"), `f:2: "../kmod" is no name of a package`},
		"version":         {line("34.2-2 amd", "x amd"), `f:2: "x" is no version`},
		"arch":            {line("amd64 ", "AMD "), `f:2: "AMD" is no architecture`},
		"size":            {line("95704", "-1"), `f:2: "-1" is no size`},
		"large":           {line("95704", "9999999999"), "no size in bytes"},
		"digest":          {line(sum, "abc"), "no SHA-256 digest"},
		"upper case":      {line(sum, strings.ToUpper(sum)), "no SHA-256 digest"},
		"path out":        {line("pool/k", "../../etc"), "no path of a .deb"},
		"absolute path":   {line("debian/pool", "/debian/pool"), "no path of a .deb"},
		"address":         {line("debian/pool", "http://x/pool"), "no path of a .deb"},
		"no deb":          {line(".deb", ".exe"), "no path of a .deb"},
		"archive":         {line("debian/", "other/"), "f:2: the path begins with other, which is the archive of no suite above"},
		"twice":           {line() + line()[len(suite):], "f:3: packages are sorted by name, each once; kmod comes after kmod"},
		"suite late":      {line() + "suite trixie-x debian 2026-09-12T07:55:41Z\n", "f:3: suites come first"},
		"suite twice":     {suite + suite, "f:2: suites come first"},
		"suite fields":    {"suite trixie debian\n", "f:1: a suite is written as"},
		"suite date":      {"suite trixie debian today\n", `f:1: "today" is no date`},
		"many lines":      {strings.Repeat("\n", maxLines+1), "more than 10000 lines"},
		"a line too long": {strings.Repeat("x", 1<<20), "f:1: "},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("f", strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	var b bytes.Buffer
	if err := sample().Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.String())
	f.Fuzz(func(t *testing.T, in string) {
		l, err := Parse("f", strings.NewReader(in))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := l.Write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := Parse("f", &b)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if d := cmp.Diff(l, again); d != "" {
			t.Error(d)
		}
	})
}

func TestParseWanted(t *testing.T) {
	got, err := ParseWanted("l", strings.NewReader("# all\nkmod # modules\n\nlinux-image-cloud-amd64 -> linux-image-\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Wanted{{Name: "kmod", At: "l:2"}, {Name: "linux-image-cloud-amd64", Prefix: "linux-image-", At: "l:4"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for in, want := range map[string]string{
		"kmod\nkmod\n": "l:2: kmod is wanted already at l:1",
		"a b\n":        "l:1: a line is NAME or META -> PREFIX",
		"a -> B\n":     "l:1: a line is",
		"Kmod\n":       `l:1: "Kmod" is no name`,
	} {
		if _, err := ParseWanted("l", strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", in, err, want)
		}
	}
}

func TestNewer(t *testing.T) {
	// The examples of deb-version(7) and of what trixie has.
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"1.0", "1.0~rc1", true},
		{"1:1.0", "2.0", true},
		{"34.2-2", "34.2-10", false},
		{"1.1.15+ds1-2+b4", "1.1.15+ds1-2+b3", true},
		{"6.12.117-1", "6.12.107-1", true},
		{"257.13-1~deb13u1", "257.13-1", false},
		{"1.0", "1.0", false},
	} {
		if got := newer(c.a, c.b); got != c.want {
			t.Errorf("newer(%s, %s) = %v", c.a, c.b, got)
		}
	}
}

func TestPick(t *testing.T) {
	o := func(name, version string, depends ...string) offer {
		return offer{Package{Name: name, Version: version}, depends}
	}
	offers := []offer{
		o("kmod", "34-1"), o("kmod", "34-2"), o("kmod", "34-1.1"),
		o("meta", "1", "image-6.12.9", "tool"), o("meta", "2", "image-6.12.10", "image-gone", "tool"),
		o("image-6.12.9", "9"), o("image-6.12.10", "10"), o("tool", "1"),
	}
	got, err := pick([]Wanted{{Name: "meta", Prefix: "image-"}, {Name: "kmod"}}, offers)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Package{{Name: "image-6.12.10", Version: "10"}, {Name: "kmod", Version: "34-2"}}, got); d != "" {
		t.Error(d)
	}
	_, err = pick([]Wanted{{Name: "foo", At: "l:1"}, {Name: "meta", Prefix: "x-", At: "l:2"}, {Name: "bar", At: "l:3"}}, offers)
	want := "l:1: no suite has a package foo\nl:2: meta 2 depends on no package that begins with x-\nl:3: no suite has a package bar"
	if err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
}
