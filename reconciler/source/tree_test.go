package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

// unreadable is a repository with one of each that may not be read.
func unreadable(t *testing.T) *work {
	w := newWork(t)
	other := newWork(t)
	other.commit("x", "1")
	w.write("apps/web.yaml", "web")
	w.write("apps/big.yaml", strings.Repeat("x", 2000))
	w.write("apps/model.bin", pointer)
	w.write("run.sh", "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(w.dir, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	symlinkTo(t, w, "apps/inside.yaml", "web.yaml")
	symlinkTo(t, w, "apps/passwd", "/etc/passwd")
	symlinkTo(t, w, "apps/up", "../../secret")
	symlinkTo(t, w, "apps/side", "../run.sh")
	w.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.dir, "vendor")
	return w
}

func TestWalkRefusesWhatIsNoFile(t *testing.T) {
	w := unreadable(t)
	sha := w.commit()
	limits := Limits{FileSize: 1000}
	s := New(Config{URL: w.dir, Limits: limits})
	defer s.Close()
	tree, err := s.Tree(fetched(t, s, sha).SHA)
	if err != nil {
		t.Fatal(err)
	}
	below := []string{"apps/big.yaml !TooLarge", "apps/model.bin !LFSPointer", "apps/passwd !Symlink", "apps/side !Symlink", "apps/up !Symlink", "apps/web.yaml web"}
	all := append([]string{".gitmodules " + string(must(os.ReadFile(filepath.Join(w.dir, ".gitmodules"))))}, below[:3]...)
	all = append(append(all, below[4:]...), "run.sh #!/bin/sh\n", "vendor !Submodule")
	if diff := cmp.Diff(all, list(t, tree, ".")); diff != "" {
		t.Errorf("walk (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(all, list(t, tree, "")); diff != "" {
		t.Errorf("second walk (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(below, list(t, tree, "apps/")); diff != "" {
		t.Errorf("walk of apps (-want +got):\n%s", diff)
	}
	dir := Dir{Root: w.dir, Limits: limits}
	if diff := cmp.Diff(below, list(t, dir, "apps")); diff != "" {
		t.Errorf("walk of the directory (-want +got):\n%s", diff)
	}
	for name, rule := range map[string]string{"apps/passwd": "Symlink", "apps/inside.yaml": "Symlink", "vendor": "Submodule", "apps/big.yaml": "TooLarge"} {
		var bad *FileError
		if _, err := tree.File(name); !errors.As(err, &bad) || bad.Rule != rule {
			t.Errorf("File(%s) = %v, want %s", name, err, rule)
		}
	}
	for _, tr := range []Tree{tree, dir} {
		f, err := tr.File("/run.sh")
		if err != nil || f.Mode != 0o755 || f.Blob != w.git("rev-parse", "HEAD:run.sh") || content(t, f) != "#!/bin/sh\n" {
			t.Errorf("File(run.sh) of %T = %+v, %v", tr, f, err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestWalkEndsAtTheLimits(t *testing.T) {
	w := newWork(t)
	deep := strings.Repeat("d/", maxDepth+2) + "x"
	sha := w.commit("a/1", "11", "a/2", "22", "a/3", "33", deep, "1")
	for _, tt := range []struct {
		name   string
		limits Limits
		folder string
		want   []string
	}{
		{"within", Limits{Files: 3, TotalSize: 6}, "a", []string{"a/1 11", "a/2 22", "a/3 33"}},
		{"files", Limits{Files: 2}, "a", []string{"a/1 11", "a/2 22", "a !TooMany"}},
		{"bytes", Limits{TotalSize: 5}, "a", []string{"a/1 11", "a/2 22", "a !TooLarge"}},
		{"depth", Limits{}, "d", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(Config{URL: w.dir, Limits: tt.limits})
			defer s.Close()
			tree, err := s.Tree(sha)
			if err != nil {
				t.Fatal(err)
			}
			for _, tr := range []Tree{tree, Dir{Root: w.dir, Limits: tt.limits}} {
				got := list(t, tr, tt.folder)
				if tt.name == "depth" { // what counts is that it ends with the reason
					if len(got) != 1 || !strings.HasSuffix(got[0], " !TooMany") {
						t.Errorf("%T: walk = %q", tr, got)
					}
				} else if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%T: walk (-want +got):\n%s", tr, diff)
				}
			}
		})
	}
	t.Run("reader leaves", func(t *testing.T) {
		n := 0
		for range (Dir{Root: w.dir}).Walk("a") {
			n++
			break
		}
		if n != 1 {
			t.Errorf("walked %d files", n)
		}
	})
}

// A directory and the commit of it are the same tree.
func TestDirIsLikeTheCommit(t *testing.T) {
	w := newWork(t)
	sha := w.commit("a.yaml", "1", "a/b", "2", "a-b", "3", "a0", "", "z/y/x", "4")
	s := New(Config{URL: w.dir})
	defer s.Close()
	tree, err := s.Tree(sha)
	if err != nil {
		t.Fatal(err)
	}
	type seen struct {
		Path, Blob string
		Mode       os.FileMode
		Size       int64
	}
	see := func(t *testing.T, tr Tree) (out []seen) {
		for f, err := range tr.Walk(".") {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, seen{f.Path, f.Blob, f.Mode, f.Size})
		}
		return out
	}
	if diff := cmp.Diff(see(t, tree), see(t, Dir{Root: w.dir})); diff != "" {
		t.Errorf("commit and directory differ:\n%s", diff)
	}
	for _, err := range (Dir{Root: w.dir}).Walk("nowhere") {
		if !errors.Is(err, ErrNoPath) {
			t.Errorf("walk of nowhere: %v", err)
		}
	}
	if got := list(t, Dir{Root: w.dir}, "a/b"); len(got) != 1 || got[0] != "a/b 2" {
		t.Errorf("walk of a file = %q", got)
	}
}
