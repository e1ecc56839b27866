package source

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"archive/tar"

	"github.com/google/go-cmp/cmp"

	"github.com/writ-os/writ/image/deb"
	"github.com/writ-os/writ/image/lock"
	"github.com/writ-os/writ/image/tree"
)

// pack makes a .deb and puts it into a cache.
func pack(t *testing.T, dir, control string, files ...tar.Header) lock.Package {
	t.Helper()
	archive := func(hs ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range hs {
			body := ""
			if h.Typeflag == 0 {
				h.Typeflag, body = tar.TypeReg, h.Linkname
				h.Linkname, h.Size = "", int64(len(body))
			}
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	b := bytes.NewBufferString("!<arch>\n")
	for _, m := range []struct {
		name string
		data []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar", archive(tar.Header{Name: "./control", Linkname: control})}, {"data.tar", archive(files...)}} {
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, 0, 0, 0, "100644", len(m.data))
		b.Write(m.data)
	}
	c, err := deb.ReadControl(strings.NewReader(control))
	if err != nil {
		t.Fatal(err)
	}
	p := lock.Package{Name: c.Name, Version: c.Version, Arch: c.Arch, Size: int64(b.Len()), SHA256: fmt.Sprintf("%x", sha256.Sum256(b.Bytes()))}
	if err := os.MkdirAll(filepath.Join(dir, "packages"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "packages", p.SHA256+".deb"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func control(name, more string) string {
	return "Package: " + name + "\nVersion: 1\nArchitecture: amd64\n" + more
}

// file is a regular file; the link name carries its content to pack.
func file(name, content string) tar.Header {
	return tar.Header{Name: name, Mode: 0o644, Linkname: content}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	l := &lock.Lock{Packages: []lock.Package{
		pack(t, dir, control("aa", ""), file("./lib/x", "one"), tar.Header{Name: "./usr/hard", Typeflag: tar.TypeLink, Linkname: "./lib/x"},
			tar.Header{Name: "./etc/", Typeflag: tar.TypeDir, Mode: 0o700}),
		pack(t, dir, control("bb", "Depends: libz1, aa\n"), tar.Header{Name: "./etc/", Typeflag: tar.TypeDir, Mode: 0o755}, tar.Header{Name: "./l", Typeflag: tar.TypeSymlink, Linkname: "usr/hard"}),
	}}
	s, err := Load(t.Context(), dir, l)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for at, e := range s.Tree.All() {
		if e.Origin != tree.Writ {
			got = append(got, fmt.Sprintf("%s %v %d %s %s", at, e.Mode, e.Data.Size, e.Link, e.Origin))
		}
	}
	want := []string{"etc drwx------ 0  aa", "l L--------- 0 usr/hard bb", "usr/hard -rw-r--r-- 3  aa", "usr/lib/x -rw-r--r-- 3  aa"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(s.Packages) != 2 || s.Packages[1].Depends[0] != "libz1" {
		t.Errorf("packages: %+v", s.Packages)
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	good := pack(t, dir, control("aa", ""), file("./x", "one"))
	other := good
	other.Version = "2"
	absent := good
	absent.SHA256 = strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		packages []lock.Package
		want     string
	}{
		"another version": {[]lock.Package{other}, "unpack aa 2: the package says that it is aa 1 amd64"},
		"not fetched":     {[]lock.Package{absent}, "no such file"},
		"the same path":   {[]lock.Package{good, pack(t, dir, control("bb", ""), file("./x", "two"))}, "unpack bb: add x of bb: it is there already, of aa"},
		"a hard link":     {[]lock.Package{pack(t, dir, control("cc", ""), tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "none"})}, "h is the same file as none"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Load(t.Context(), dir, &lock.Lock{Packages: c.packages}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	_, err := Load(t.Context(), dir, &lock.Lock{Packages: []lock.Package{absent}})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

func TestExplain(t *testing.T) {
	s := &Source{
		Lock:     &lock.Lock{Packages: []lock.Package{{Name: "libc6"}}},
		Packages: []deb.Control{{Name: "runc", Depends: []string{"libc6", "libseccomp2"}}, {Name: "x", Depends: []string{"libc6", "libpcre2-8-0", "libext2fs2t64", "odd"}}, {Name: "none"}},
	}
	for _, c := range []struct{ origin, lib, want string }{
		{"runc", "libseccomp.so.2", "runc depends on libseccomp2: add it to packages.list and run `make image-update`"},
		{"x", "libpcre2-8.so.0", "x depends on libpcre2-8-0: "},
		{"x", "libext2fs.so.2", "x depends on libext2fs2t64: "},
		{"x", "libq.so.1", "x depends on libpcre2-8-0, libext2fs2t64, odd: "},
		{"none", "libq.so.1", "; add its package to packages.list"},
		{tree.Writ, "libq.so.1", "; add its package to packages.list"},
	} {
		err := s.explain(errors.Join(&tree.Missing{Library: c.lib, By: "usr/bin/p", Origin: c.origin}))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "usr/bin/p of "+c.origin+" needs "+c.lib) {
			t.Errorf("%s %s: %v", c.origin, c.lib, err)
		}
	}
	if s.explain(nil) != nil {
		t.Error("an error out of nothing")
	}
}
