package source

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/writ-os/writ/reconciler/sandbox"
)

func TestMain(m *testing.M) {
	if sandbox.Serve(mortal(readThere)) {
		return
	}
	goleak.VerifyTestMain(m)
}

// work is a working tree made by the git program.
type work struct {
	testing.TB
	dir string
}

func newWork(tb testing.TB) *work {
	w := &work{tb, tb.TempDir()}
	w.git("init", "-q", "-b", "main")
	return w
}

// git runs the git program as nobody's user, and returns what it prints.
func (w *work) git(args ...string) string {
	w.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("git %v: %v\n%s", args, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func (w *work) write(name, content string) {
	w.Helper()
	at := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
		w.Fatal(err)
	}
}

// commit writes the files, given as name and content in turn, and commits all
// that the working tree has.
func (w *work) commit(files ...string) (sha string) {
	w.Helper()
	for i := 0; i < len(files); i += 2 {
		w.write(files[i], files[i+1])
	}
	w.git("add", "-A")
	w.git("commit", "-q", "--allow-empty", "-m", fmt.Sprintf("change %d files", len(files)/2))
	return w.git("rev-parse", "HEAD")
}

// bare makes a bare repository that the working tree pushes to.
func (w *work) bare() string {
	w.Helper()
	dir := filepath.Join(w.TempDir(), "repo.git")
	w.git("init", "-q", "--bare", "-b", "main", dir)
	w.git("remote", "add", "origin", dir)
	return dir
}

func (w *work) push(args ...string) {
	w.Helper()
	w.git(append([]string{"push", "-q", "origin"}, args...)...)
}

// list is a walk as lines: path and content, or path and rule, or the error.
func list(t testing.TB, tree Tree, folder string) []string {
	t.Helper()
	var out []string
	for f, err := range tree.Walk(folder) {
		var bad *FileError
		switch {
		case errors.As(err, &bad):
			out = append(out, bad.Path+" !"+bad.Rule)
		case err != nil:
			out = append(out, "error: "+err.Error())
		default:
			out = append(out, f.Path+" "+content(t, f))
		}
	}
	return out
}

func content(t testing.TB, f File) string {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Fatalf("open %s: %v", f.Path, err)
	}
	defer r.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		t.Fatalf("read %s: %v", f.Path, err)
	}
	if int64(b.Len()) != f.Size {
		t.Errorf("%s: Size = %d, read %d bytes", f.Path, f.Size, b.Len())
	}
	return b.String()
}

// fetched fetches and returns the commit, which must have this SHA.
func fetched(t testing.TB, s *Source, sha string) Commit {
	t.Helper()
	c, err := s.Fetch(t.Context())
	if err != nil {
		t.Fatalf("Fetch: %v", err)
	}
	if c.SHA != sha {
		t.Fatalf("Fetch = %s, want %s", c.SHA, sha)
	}
	return c
}

func files(t testing.TB, s *Source, sha string) []string {
	t.Helper()
	tree, err := s.Tree(sha)
	if err != nil {
		t.Fatalf("Tree: %v", err)
	}
	return list(t, tree, ".")
}

// fails fetches, which must fail with the kind of error and all the words.
func fails(t testing.TB, s *Source, kind error, words ...string) {
	t.Helper()
	_, err := s.Fetch(t.Context())
	if !errors.Is(err, kind) {
		t.Fatalf("Fetch error = %v, want %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("Fetch error = %q, want %q in it", err, w)
		}
	}
}

func symlinkTo(t testing.TB, w *work, name, target string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(w.dir, name)); err != nil {
		t.Fatal(err)
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

func manyFiles(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("apps/%02d/web-%04d.yaml", i%50, i), fmt.Sprintf("kind: ConfigMap\nmetadata: {name: web-%d}\ndata: {a: %s}\n", i, strings.Repeat("x", 300)))
	}
	return out
}
