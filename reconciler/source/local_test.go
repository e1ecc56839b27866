package source

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBuiltinFollowsPushes(t *testing.T) {
	w := newWork(t)
	bare := w.bare()
	s := New(Config{Builtin: bare})
	defer s.Close()
	fails(t, s, ErrEmpty, "no commits", "branch main")

	first := w.commit("a.yaml", "a: 1\n", "apps/web.yaml", "web\n", "apps.yaml", "x\n")
	w.push("main")
	c := fetched(t, s, first)
	if c.Author != "Ann <ann@example.com>" || c.Parent != "" || c.Rewritten || time.Since(c.Time) > time.Hour || c.Message == "" {
		t.Errorf("Commit = %+v", c)
	}
	if diff := cmp.Diff([]string{"a.yaml a: 1\n", "apps.yaml x\n", "apps/web.yaml web\n"}, files(t, s, first)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	second := w.commit("a.yaml", "a: 2\n")
	w.push("main")
	if got, err := s.Commit(second); err != nil || got.Parent != first {
		t.Errorf("Commit before Fetch = %+v, %v", got, err)
	}
	c = fetched(t, s, second)
	if c.Parent != first || c.Rewritten {
		t.Errorf("Commit = %+v", c)
	}
	w.git("-C", bare, "gc", "-q", "--prune=now") // packs replace what was open
	if got := files(t, s, first); got[0] != "a.yaml a: 1\n" {
		t.Errorf("files of the first commit after gc = %q", got)
	}
	changes, err := s.Diff(first, second)
	if err != nil || len(changes) != 1 || changes[0].Path != "a.yaml" || changes[0].Op != Modified {
		t.Errorf("Diff = %+v, %v", changes, err)
	}
	if changes, err = s.Diff("", second); err != nil || len(changes) != 3 {
		t.Errorf("Diff from nothing = %+v, %v", changes, err)
	}
}

func TestRewrittenIsKeptWhileTheHeadStays(t *testing.T) {
	w := newWork(t)
	base := w.commit("a", "1")
	old := w.commit("a", "2")
	s := New(Config{URL: w.dir})
	defer s.Close()
	fetched(t, s, old)
	w.git("reset", "-q", "--hard", base)
	other := w.commit("a", "3")
	for range 2 {
		if c := fetched(t, s, other); !c.Rewritten {
			t.Error("Rewritten = false after a reset")
		}
	}
	w.git("checkout", "-q", "-b", "side", base)
	w.commit("b", "1")
	w.git("checkout", "-q", "main")
	w.git("merge", "-q", "--no-edit", "side")
	if c := fetched(t, s, w.git("rev-parse", "HEAD")); c.Rewritten {
		t.Error("Rewritten = true after a merge")
	}
	w.git("reset", "-q", "--hard", base)
	if c := fetched(t, s, base); !c.Rewritten {
		t.Error("Rewritten = false after going back")
	}
}

func TestLocalRepositories(t *testing.T) {
	w := newWork(t)
	sha := w.commit("a", "1")
	linked := filepath.Join(t.TempDir(), "linked")
	w.git("worktree", "add", "-q", "-b", "other", linked)
	bare := w.bare()
	w.push("main")
	w.git("-C", bare, "pack-refs", "--all")
	for name, url := range map[string]string{"working tree": w.dir, "file URL": "file://" + w.dir, "dot git": filepath.Join(w.dir, ".git"),
		"linked working tree": linked, "bare, packed refs": bare} {
		t.Run(name, func(t *testing.T) {
			s := New(Config{URL: url})
			defer s.Close()
			fetched(t, s, sha)
		})
	}
	t.Run("uncommitted files do not count", func(t *testing.T) {
		w.write("b", "not committed")
		s := New(Config{URL: w.dir})
		defer s.Close()
		if got := files(t, s, fetched(t, s, sha).SHA); len(got) != 1 {
			t.Errorf("files = %q", got)
		}
	})
}

// A push is judged where its objects are, before it is let in.
func TestQuarantineBorrowsObjects(t *testing.T) {
	w := newWork(t)
	bare := w.bare()
	w.commit("a", "1", "b/c", "2")
	w.push("main")
	quarantine := filepath.Join(t.TempDir(), "push")
	w.git("init", "-q", "--bare", quarantine)
	for name, line := range map[string]string{"absolute": filepath.Join(bare, "objects"), "relative": rel(t, filepath.Join(quarantine, "objects"), filepath.Join(bare, "objects"))} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(quarantine, "objects", "info", "alternates"), []byte(line+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			sha := w.commit("a", name)
			w.git("push", "-q", quarantine, "HEAD:refs/pushed/"+name)
			s := New(Config{Builtin: quarantine})
			defer s.Close()
			if c, err := s.Commit(sha); err != nil || c.SHA != sha {
				t.Fatalf("Commit = %+v, %v", c, err)
			}
			if diff := cmp.Diff([]string{"a " + name, "b/c 2"}, files(t, s, sha)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func rel(t *testing.T, from, to string) string {
	t.Helper()
	p, err := filepath.Rel(from, to)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWhatIsMissing(t *testing.T) {
	w := newWork(t)
	sha := w.commit("apps/web.yaml", "1", "README", "2")
	w.git("branch", "production")
	source := func(change func(*Config)) *Source {
		cfg := Config{URL: w.dir}
		change(&cfg)
		s := New(cfg)
		t.Cleanup(func() { s.Close() })
		return s
	}
	fails(t, source(func(c *Config) { c.Branch = "prod" }), ErrNoBranch, "prod", "main, production")
	fails(t, source(func(c *Config) { c.URL = filepath.Join(w.dir, "nowhere") }), ErrNoRepo, "nowhere")
	fails(t, source(func(c *Config) { c.URL = t.TempDir() }), ErrNoRepo, "not a Git repository")
	fails(t, source(func(c *Config) { c.URL = "" }), ErrConfig)
	fails(t, source(func(c *Config) { c.Path = "clusters/a" }), ErrNoPath, "clusters/a", sha[:12])
	fails(t, source(func(c *Config) { c.Path = "README" }), ErrNoPath, "not a folder")
	s := source(func(c *Config) { c.Path = "apps" })
	fetched(t, s, sha)
	w.git("rm", "-q", "-r", "apps")
	w.commit()
	fails(t, s, ErrNoPath, "apps")
	w.git("rm", "-q", "-r", ".")
	emptied := w.commit()
	fails(t, source(func(*Config) {}), ErrEmpty, "no files")
	tree, err := s.Tree(emptied)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range tree.Walk(".") {
		if !errors.Is(err, ErrEmpty) {
			t.Errorf("walk of an emptied repository: %v", err)
		}
	}
	if _, err := tree.File("apps/web.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("File = %v", err)
	}
	for _, sha := range []string{"", "main", "0123456789012345678901234567890123456789"} {
		if _, err := s.Tree(sha); !errors.Is(err, ErrMissing) {
			t.Errorf("Tree(%q) = %v", sha, err)
		}
	}
	w.git("update-ref", "-d", "refs/heads/main")
	w.git("update-ref", "-d", "refs/heads/production")
	fails(t, source(func(*Config) {}), ErrEmpty, "no commits")
}
