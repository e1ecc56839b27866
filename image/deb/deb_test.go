package deb

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

const control = `Package: small
Source: large (1:2.0-1)
Version: 1:2.0-1+b1
Architecture: amd64
Maintainer: Jane <jane@example.com>
Pre-Depends: libc6 (>= 2.41), libc6:any
Depends: a | b (= 1), c
Description: a package
 of two lines
 .
 and a third
`

// packed is one file of a data.tar.
type packed struct {
	tar.Header
	body string
}

func tarOf(t testing.TB, files ...packed) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		if f.Typeflag == 0 {
			f.Typeflag = tar.TypeReg
		}
		f.Size = int64(len(f.body))
		if err := w.WriteHeader(&f.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func reg(name, body string, mode int64) packed {
	return packed{tar.Header{Name: name, Mode: mode}, body}
}

func arOf(pairs ...any) []byte {
	b := bytes.NewBufferString(arMagic)
	for i := 0; i < len(pairs); i += 2 {
		var body []byte
		switch v := pairs[i+1].(type) {
		case string:
			body = []byte(v)
		case []byte:
			body = v
		}
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", pairs[i], 0, 0, 0, "100644", len(body))
		b.Write(body)
		if len(body)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

func compress(t testing.TB, how string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch how {
	case ".xz":
		w, err = xz.NewWriter(&b)
	case ".zst":
		w, err = zstd.NewWriter(&b)
	case ".gz":
		w = gzip.NewWriter(&b)
	default:
		return data
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func small(t testing.TB, how string, files ...packed) []byte {
	return arOf("debian-binary", "2.0\n", "control.tar"+how, compress(t, how, tarOf(t, reg("./control", control, 0o644))),
		"data.tar"+how, compress(t, how, tarOf(t, files...)))
}

func open(b []byte) (*Package, error) { return Open(bytes.NewReader(b), int64(len(b))) }

func TestPackage(t *testing.T) {
	files := []packed{
		{Header: tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}},
		{Header: tar.Header{Name: "./usr/", Typeflag: tar.TypeDir, Mode: 0o755}},
		reg("./usr/su", "one", 0o4755),
		{Header: tar.Header{Name: "./usr/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/x"}},
		{Header: tar.Header{Name: "./usr/hard", Typeflag: tar.TypeLink, Linkname: "./usr/su", Uid: 1, Gid: 2}},
		reg(`./usr/a\x2db`, "two", 0o644),
	}
	for _, how := range []string{"", ".xz", ".zst", ".gz"} {
		t.Run("tar"+how, func(t *testing.T) {
			p, err := open(small(t, how, files...))
			if err != nil {
				t.Fatal(err)
			}
			want := Control{
				Name: "small", Version: "1:2.0-1+b1", Arch: "amd64", Source: "large", SourceVersion: "1:2.0-1",
				Maintainer: "Jane <jane@example.com>", Depends: []string{"libc6", "libc6", "a", "b", "c"},
			}
			if d := cmp.Diff(want, p.Control); d != "" {
				t.Error(d)
			}
			if got := p.Control.Licence(); got != "usr/share/doc/small/copyright" {
				t.Errorf("Licence() = %s", got)
			}
			var got []string
			err = p.Walk(func(f *File, r io.Reader) error {
				b, err := io.ReadAll(r)
				got = append(got, fmt.Sprintf("%s %v %d:%d %q %v %d %s", f.Path, f.Mode, f.UID, f.GID, f.Link, f.Hard, f.Size, b))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			list := []string{
				`usr drwxr-xr-x 0:0 "" false 0 `,
				`usr/su urwxr-xr-x 0:0 "" false 3 one`,
				`usr/link L--------- 0:0 "/etc/x" false 0 `,
				`usr/hard ---------- 1:2 "usr/su" true 0 `,
				`usr/a\x2db -rw-r--r-- 0:0 "" false 3 two`,
			}
			if d := cmp.Diff(list, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestPackageRefuses(t *testing.T) {
	walk := func(h packed) func(t *testing.T) error {
		return func(t *testing.T) error {
			p, err := open(small(t, "", h))
			if err != nil {
				t.Fatal(err)
			}
			return p.Walk(func(*File, io.Reader) error { return nil })
		}
	}
	opened := func(b []byte) func(t *testing.T) error {
		return func(*testing.T) error { _, err := open(b); return err }
	}
	whole := small(t, "")
	for name, c := range map[string]struct {
		do   func(t *testing.T) error
		want string
	}{
		"absolute":       {walk(reg("/etc/passwd", "", 0)), "leads out"},
		"parent":         {walk(reg("../x", "", 0)), "leads out"},
		"parent inside":  {walk(reg("./a/../b", "", 0)), "leads out"},
		"newline":        {walk(reg("a\nb", "", 0)), "leads out"},
		"device":         {walk(packed{Header: tar.Header{Name: "null", Typeflag: tar.TypeChar}}), "only files, directories and links"},
		"fifo":           {walk(packed{Header: tar.Header{Name: "f", Typeflag: tar.TypeFifo}}), "only files, directories and links"},
		"hard link":      {walk(packed{Header: tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}}), "leads out"},
		"empty link":     {walk(packed{Header: tar.Header{Name: "h", Typeflag: tar.TypeSymlink}}), "no path"},
		"root as a file": {walk(reg("./.", "", 0)), "its root is no directory"},
		"no archive":     {opened([]byte("PK")), "no ar archive"},
		"empty archive":  {opened([]byte(arMagic)), "no control.tar"},
		"wrong order":    {opened(arOf("control.tar", "", "debian-binary", "")), "does not begin"},
		"no data":        {opened(arOf("debian-binary", "2.0\n", "control.tar", tarOf(t))), "no data.tar"},
		"no control":     {opened(arOf("debian-binary", "2.0\n", "control.tar", tarOf(t), "data.tar", "")), "no control file"},
		"bad name":       {opened(arOf("debian-binary", "", "control.tar", tarOf(t, reg("control", "Package: ../x\n", 0)), "data.tar", "")), "no name of a package"},
		"cut header":     {opened(whole[:len(arMagic)+20]), "cut off"},
		"cut data":       {opened(whole[:len(whole)-600]), "the archive ends"},
		"broken header":  {opened(append(append([]byte{}, whole[:66]...), bytes.Repeat([]byte("x"), 80)...)), "damaged"},
		"many members":   {opened([]byte(arMagic + strings.Repeat(string(arOf("x", "")[len(arMagic):]), maxMembers+1))), "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.do(t); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestParagraphs(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []Paragraph
		err  string
	}{
		"two":        {"A: 1\nB:2\n\n\n# no\nA: x\n y\n\tz\n", []Paragraph{{"A": "1", "B": "2"}, {"A": "x\ny\nz"}}, ""},
		"none":       {"\n\n", nil, ""},
		"continued":  {" x\n", nil, "line 1: a continued line"},
		"no field":   {"A: 1\nfoo\n", nil, "line 2: \"foo\" is no field"},
		"twice":      {"A: 1\nA: 2\n", nil, "line 2: the field A is there twice"},
		"large":      {"A:\n" + strings.Repeat(" "+strings.Repeat("x", 1<<19)+"\n", 9), nil, "larger than"},
		"large line": {"A: " + strings.Repeat("x", maxLine), nil, "token too long"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []Paragraph
			var err error
			for p, e := range Paragraphs(strings.NewReader(c.in)) {
				if e != nil {
					err = e
					break
				}
				got = append(got, p)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if d := cmp.Diff(c.want, got); c.err == "" && d != "" {
				t.Error(d)
			}
		})
	}
}

// A .deb may be anything; what is handed out must be local.
func FuzzPackage(f *testing.F) {
	f.Add(small(f, "", reg("a", "b", 0o644)))
	f.Add(small(f, ".gz", reg("a", "b", 0o644)))
	f.Add([]byte(arMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := open(b)
		if err != nil {
			return
		}
		_ = p.Walk(func(f *File, r io.Reader) error {
			if !fs.ValidPath(f.Path) && !strings.Contains(f.Path, "\\") {
				t.Errorf("path %q", f.Path)
			}
			_, err := io.CopyN(io.Discard, r, 1<<20)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		})
	})
}

func FuzzAr(f *testing.F) {
	f.Add(arOf("a", "b", "c", "dd"))
	f.Add(arOf("debian-binary", "2.0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := readAr(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		total := int64(0)
		for _, m := range all {
			if total += m.data.Size(); total > int64(len(b)) {
				t.Fatal("members are larger than the archive")
			}
			if n, err := io.Copy(io.Discard, m.data); err != nil || n != m.data.Size() {
				t.Fatalf("read %s: %d, %v", m.name, n, err)
			}
		}
	})
}
