package receive

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/source/pack"
)

// dieAt is added to Config.MaxObjects to have the child die: of n+dieAt, with the
// n-th thing that it does. It is more than there are objects in a test.
const dieAt = 1 << 24

// killable is the function of a child that kills itself where a test asks for it:
// before it reads from the file, before it asks something, and before it answers.
func killable(f sandbox.Func[pack.Question, pack.Verdict]) sandbox.Func[pack.Question, pack.Verdict] {
	inner := f.With
	f.With = func(q pack.Question, c *sandbox.Caller) pack.Verdict {
		if q.Limits.Objects < dieAt {
			return inner(q, c)
		}
		steps := mortal{c.File, q.Limits.Objects - dieAt}
		c.File = &steps
		v := inner(q, c)
		steps.step()
		return v
	}
	return f
}

// mortal is a file whose n-th read is the last thing that a process does.
type mortal struct {
	io.ReaderAt
	left int64
}

func (m *mortal) step() {
	if m.left--; m.left == 0 {
		os.Exit(137) // the filter has no kill(2)
	}
}

// ReadAt implements io.ReaderAt.
func (m *mortal) ReadAt(p []byte, off int64) (int, error) {
	m.step()
	return m.ReaderAt.ReadAt(p, off)
}

// repositoryFiles lists all that a repository has.
func repositoryFiles(t *testing.T, s *server) (out []string) {
	t.Helper()
	err := filepath.Walk(s.RepoDir("cluster"), func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			b, rerr := os.ReadFile(path)
			out, err = append(out, path+" "+string(b)), rerr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Wherever the child that reads a push dies, the push is refused in one sentence,
// the repository is as it was to the byte, and the next push is taken.
func TestChildKilledAtEachStep(t *testing.T) {
	s, clone := seeded(t)
	write(t, clone, map[string]string{"a/b/c": strings.Repeat("kind: ConfigMap\n", 2000), "web/service.yaml": "kind: Service\nspec: {}\n"})
	sha := commit(t, clone, "Change")
	before := repositoryFiles(t, s)
	steps := int64(0)
	for n := int64(1); ; n++ {
		s.cfg.MaxObjects = dieAt + n
		out, err := tryGit(t, clone, "push", "origin", "main")
		if err == nil {
			steps = n - 1
			break
		}
		if want := "main -> main (read pack: the process that reads it has ended: it ended without an answer; nothing was changed: send it again)"; !strings.Contains(out, want) {
			t.Fatalf("killed at %d:\n%s", n, out)
		}
		s.verify(t)
		if !slices.Equal(before, repositoryFiles(t, s)) {
			t.Fatalf("killed at %d: the repository is not what it was", n)
		}
	}
	if steps < 5 {
		t.Errorf("it was killed %d times", steps)
	}
	t.Logf("killed at %d steps", steps)
	if got := git(t, s.RepoDir("cluster"), "rev-parse", "main"); got != sha {
		t.Errorf("main is %s, want %s", got, sha)
	}
	s.verify(t)
}
