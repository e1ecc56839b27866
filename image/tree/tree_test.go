package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const linkMode = fs.ModeSymlink | 0o777

// build makes a tree of "path", "path/", "path -> target" and "path = content".
func build(t testing.TB, origin string, lines ...string) *Tree {
	t.Helper()
	tr := New()
	for _, l := range lines {
		var err error
		if at, to, ok := strings.Cut(l, " -> "); ok {
			err = tr.Add(at, Entry{Mode: linkMode, Link: to, Origin: origin})
		} else if at, content, ok := strings.Cut(l, " = "); ok {
			err = tr.Add(at, Entry{Mode: 0o644, Data: Bytes([]byte(content)), Origin: origin})
		} else if at, ok := strings.CutSuffix(l, "/"); ok {
			err = tr.Add(at, Entry{Mode: fs.ModeDir | 0o755, Origin: origin})
		} else {
			err = tr.Add(l, Entry{Mode: 0o644, Data: Bytes(nil), Origin: origin})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

func list(t *Tree) []string {
	var all []string
	for at, e := range t.All() {
		switch {
		case e.Mode.IsDir():
			at += "/"
		case e.Link != "":
			at += " -> " + e.Link
		}
		all = append(all, at)
	}
	return all
}

func TestAdd(t *testing.T) {
	tr := Merged()
	if err := tr.Add("bin/sh", Entry{Mode: 0o755, Data: Bytes(nil), Origin: "dash"}); err != nil {
		t.Fatal(err)
	}
	if e, ok := tr.Get("usr/bin/sh"); !ok || e.Origin != "dash" {
		t.Error("what goes to /bin does not land in /usr/bin")
	}
	for _, c := range []struct {
		at   string
		e    Entry
		want string
	}{
		{"usr/bin/sh", Entry{Mode: 0o755, Data: Bytes(nil), Origin: "bash"}, "add usr/bin/sh of bash: it is there already, of dash"},
		{"usr/bin", Entry{Mode: 0o755, Data: Bytes(nil)}, "there already"},
		{"usr/bin/sh/x", Entry{Mode: 0o755, Data: Bytes(nil)}, "usr/bin/sh is no directory"},
		{"/etc/x", Entry{Mode: 0o755, Data: Bytes(nil)}, "no path in a tree"},
		{"a/../b", Entry{Mode: 0o755, Data: Bytes(nil)}, "no path in a tree"},
		{"..", Entry{Mode: fs.ModeDir}, "no path in a tree"},
		{".", Entry{Mode: fs.ModeDir}, "no path in a tree"},
		{"a\nb", Entry{Mode: fs.ModeDir}, "no path in a tree"},
		{"x", Entry{Mode: 0o644}, "a file without content"},
		{"x", Entry{Mode: linkMode}, "a link that leads to"},
		{"x", Entry{Mode: fs.ModeDevice}, "only files, directories and links"},
	} {
		if err := tr.Add(c.at, c.e); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Add(%q): %v, want %q", c.at, err, c.want)
		}
	}
	if err := tr.Dir("usr/bin", 0o700); err != nil {
		t.Errorf("a directory twice: %v", err)
	}
	if err := tr.Symlink("lib", "usr/lib"); err != nil {
		t.Errorf("an equal link: %v", err)
	}
	if err := tr.Symlink("lib", "usr/lib64"); err == nil {
		t.Error("another link took the place of the first")
	}
	if err := tr.Replace("usr/bin/sh", Entry{Mode: linkMode, Link: "x", Origin: Writ}); err != nil {
		t.Errorf("Replace: %v", err)
	}
	if err := tr.Replace("usr/bin", Entry{Mode: linkMode, Link: "x", Origin: Writ}); err == nil {
		t.Error("a link took the place of a directory")
	}
	if !tr.Remove("usr/bin") || tr.Remove("usr/bin") {
		t.Error("Remove")
	}
	if d := cmp.Diff([]string{"bin -> usr/bin", "lib -> usr/lib", "lib64 -> usr/lib64", "sbin -> usr/sbin", "usr/", "usr/lib/", "usr/lib64/", "usr/sbin/"}, list(tr)); d != "" {
		t.Error(d)
	}
}

func TestResolve(t *testing.T) {
	tr := build(t, "p", "a/b/file = x", "abs -> /a/b", "rel -> a/b", "a/up -> ../a/b/file", "out -> ../../../a", "loop -> pool", "pool -> loop", "gone -> nowhere", "chain -> abs/file")
	for at, want := range map[string]string{
		"abs/file": "a/b/file", "rel/../b/file": "a/b/file", "/abs/./file": "a/b/file", "a/up": "a/b/file", "out/up": "a/b/file",
		"chain": "a/b/file", "gone": "", "none": "", "../../a/up": "a/b/file",
	} {
		if got, err := tr.Resolve(at); err != nil || got != want {
			t.Errorf("Resolve(%s) = %q, %v, want %q", at, got, err, want)
		}
	}
	if _, err := tr.Resolve("loop/x"); !errors.Is(err, ErrLoop) {
		t.Errorf("a circle: %v", err)
	}
	if b, err := tr.ReadFile("chain"); err != nil || string(b) != "x" {
		t.Errorf("ReadFile = %q, %v", b, err)
	}
	if _, err := tr.ReadFile("gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile of nothing: %v", err)
	}
	if _, err := tr.ReadFile("a"); err == nil {
		t.Error("a directory was read")
	}
}

func TestTar(t *testing.T) {
	tr := build(t, "p", "b = two", "a/x = one", "a.txt", "l -> a/x")
	long := strings.Repeat("d/", 60) + strings.Repeat("f", 120)
	if err := tr.Add(long, Entry{Mode: fs.ModeSetuid | 0o755, UID: 7, GID: 8, Data: Bytes([]byte("long")), Origin: "p"}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	epoch := time.Unix(1750000000, 500)
	if err := tr.Tar(&b, epoch); err != nil {
		t.Fatal(err)
	}
	var got []string
	r := tar.NewReader(&b)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(time.Unix(1750000000, 0)) || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s: %v %q %q", h.Name, h.ModTime, h.Uname, h.Gname)
		}
		content, _ := io.ReadAll(r)
		if !strings.HasPrefix(h.Name, "d/") || h.Typeflag == tar.TypeReg {
			got = append(got, fmt.Sprintf("%s %o %d:%d %s%s", strings.Replace(h.Name, long, "LONG", 1), h.Mode, h.Uid, h.Gid, h.Linkname, content))
		}
	}
	want := []string{"./ 755 0:0 ", "a/ 755 0:0 ", "a.txt 644 0:0 ", "a/x 644 0:0 one", "b 644 0:0 two", "LONG 4755 7:8 long", "l 777 0:0 a/x"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// However a tree came to be, equal trees are equal streams.
func TestDigest(t *testing.T) {
	lines := []string{"a/b/c = 1", "a/d = 2", "z -> a", "m/", "q/r = 3"}
	want, err := build(t, "p", lines...).Digest()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		rand.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		if got, err := build(t, "other", lines...).Digest(); err != nil || got != want {
			t.Fatalf("%v: %s, %v", lines, got, err)
		}
	}
	for _, other := range []string{"a/d = 3", "a/d/", "n"} {
		changed := append([]string{other}, lines...)
		if strings.HasPrefix(other, "a/d") {
			changed = []string{"a/b/c = 1", other, "z -> a", "m/", "q/r = 3"}
		}
		if got, err := build(t, "p", changed...).Digest(); err != nil || got == want {
			t.Errorf("%s changes nothing: %v", other, err)
		}
	}
}

func TestTarRefusesChangedFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	for _, after := range []string{"", "longer"} {
		if err := os.WriteFile(name, []byte("four"), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := HostFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tr := New()
		if err := tr.Add("f", Entry{Mode: 0o644, Data: d}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(after), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := tr.Tar(io.Discard, time.Unix(0, 0)); err == nil {
			t.Errorf("%q was taken for four bytes", after)
		}
	}
	if _, err := HostFile(filepath.Dir(name)); err == nil {
		t.Error("a directory is no file")
	}
}

func TestSizes(t *testing.T) {
	tr := build(t, "p", "a = 12345", "b = 1", "l -> a")
	if err := tr.File("c", 0o644, []byte("1234567")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Size{{Writ, 1, 7}, {"p", 2, 6}}, tr.Sizes()); d != "" {
		t.Error(d)
	}
}

func TestExtract(t *testing.T) {
	dir := t.TempDir()
	tr := build(t, "p", "a/x = one", "l -> /etc", "up -> ../..")
	if err := tr.Add("a/prog", Entry{Mode: fs.ModeSetuid | 0o711, UID: 1, Data: Bytes([]byte("p"))}); err != nil {
		t.Fatal(err)
	}
	if err := tr.Extract(dir); err != nil {
		t.Fatal(err)
	}
	if !tr.Extracted(dir) || build(t, "p", "a/x = two").Extracted(dir) || build(t, "p", "l -> /usr").Extracted(dir) || build(t, "p", "none/").Extracted(dir) {
		t.Error("Extracted does not know what was extracted")
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a/x")); err != nil || string(b) != "one" {
		t.Errorf("%q, %v", b, err)
	}
	if s, err := os.Stat(filepath.Join(dir, "a/prog")); err != nil || s.Mode() != 0o755 {
		t.Errorf("%v, %v", s, err)
	}
	if to, err := os.Readlink(filepath.Join(dir, "l")); err != nil || to != "/etc" {
		t.Errorf("%q, %v", to, err)
	}
	// A tree cannot have a file below a link, but a directory on the host can.
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := build(t, "p", "out/x").Extract(dir); err == nil {
		t.Error("it was written through a link of the directory")
	}
}
