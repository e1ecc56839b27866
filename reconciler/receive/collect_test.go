package receive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func noGrace(c *Config) { c.Grace = -time.Hour }

// has says whether the repository has an object.
func (s *server) has(t *testing.T, sha string) bool {
	t.Helper()
	_, err := tryGit(t, s.RepoDir("cluster"), "cat-file", "-e", sha)
	return err == nil
}

func (s *server) gc(t *testing.T) Collected {
	t.Helper()
	done, err := s.GC(t.Context(), "cluster")
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestGarbageGoes(t *testing.T) {
	var keep []string
	s, clone := seeded(t, noGrace, func(c *Config) { c.Keep = func(string) []string { return keep } })
	side := func(name string) string {
		git(t, clone, "checkout", "-q", "-b", name, "main")
		write(t, clone, map[string]string{name + "/a.yaml": name})
		sha := commit(t, clone, name)
		git(t, clone, "push", "-q", "origin", name)
		git(t, clone, "push", "-q", "origin", ":"+name)
		return sha
	}
	gone, kept := side("gone"), side("kept")
	keep = []string{kept}
	git(t, clone, "checkout", "-q", "main")
	write(t, clone, map[string]string{"a": "1"})
	head := commit(t, clone, "One")
	git(t, clone, "tag", "-a", "-m", "x", "v1")
	git(t, clone, "push", "-q", "origin", "main", "v1")
	repo := s.RepoDir("cluster")
	loose := git(t, repo, "commit-tree", "-m", "loose", head+"^{tree}") // by hand, and nothing refers to it
	git(t, repo, "update-ref", "refs/heads/byhand", git(t, repo, "commit-tree", "-m", "by hand", "-p", head, head+"^{tree}"))

	done := s.gc(t)
	if s.has(t, gone) || s.has(t, loose) || !s.has(t, kept) || !s.has(t, head) || !s.has(t, "byhand") || !s.has(t, "v1") {
		t.Errorf("gone %v, loose %v, kept %v, head %v", s.has(t, gone), s.has(t, loose), s.has(t, kept), s.has(t, head))
	}
	if done.Objects < 3 || done.Loose != 2 || done.Packs < 1 {
		t.Errorf("%+v", done)
	}
	s.verify(t)
	if again := s.gc(t); again != (Collected{}) {
		t.Errorf("a second time: %+v", again)
	}
	git(t, clone, "push", "-q", "origin", "gone") // it may come back
	again := filepath.Join(t.TempDir(), "again")
	git(t, clone, "clone", "-q", s.as("viewer"), again)
	s.verify(t)
}

// What is young stays, with all that it refers to.
func TestYoungGarbageStays(t *testing.T) {
	s, clone := seeded(t)
	git(t, clone, "checkout", "-q", "-b", "side")
	write(t, clone, map[string]string{"a": "1"})
	sha := commit(t, clone, "One")
	git(t, clone, "push", "-q", "origin", "side")
	git(t, clone, "push", "-q", "origin", ":side")
	left := filepath.Join(s.cfg.Dir, incoming, "cluster-123")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if done := s.gc(t); done != (Collected{}) || !s.has(t, sha) {
		t.Errorf("%+v", done)
	}
	if _, err := os.Stat(left); err != nil {
		t.Error("unfinished work that is young is gone")
	}
	s.cfg.Grace = -time.Hour
	s.gc(t)
	if s.has(t, sha) {
		t.Error("it is there without a grace")
	}
	s.verify(t)
}

// A push that relies on garbage keeps it, whichever comes first.
func TestGarbageWaitsForPushes(t *testing.T) {
	s, clone := seeded(t, noGrace)
	git(t, clone, "checkout", "-q", "-b", "side")
	write(t, clone, map[string]string{"a": "1"})
	sha := commit(t, clone, "One")
	git(t, clone, "push", "-q", "origin", "side")
	git(t, clone, "push", "-q", "origin", ":side")
	s.checkWith(func(ctx context.Context, _ Push) ([]string, error) {
		if _, err := s.GC(ctx, "cluster"); !errors.Is(err, ErrBusy) {
			return nil, fmt.Errorf("GC in a push: %w", err)
		}
		return nil, nil
	})
	git(t, clone, "push", "-q", "origin", "side:back") // brings no objects
	if s.gc(t); !s.has(t, sha) {
		t.Error("it is gone")
	}
	if _, err := s.GC(t.Context(), "nothing"); err == nil || !strings.Contains(err.Error(), "not served") {
		t.Errorf("GC of no repository: %v", err)
	}
	s.verify(t)
}

// What the end of the process leaves in the middle of a collection is whole.
func TestCollectionInterrupted(t *testing.T) {
	s, clone := seeded(t, noGrace)
	write(t, clone, map[string]string{"a": "1"})
	commit(t, clone, "Stays")
	git(t, clone, "branch", "side1")
	write(t, clone, map[string]string{"a": "2"})
	commit(t, clone, "Goes")
	git(t, clone, "push", "-q", "origin", "main:side2", "side1") // in one pack
	git(t, clone, "push", "-q", "origin", ":side2")
	repo := s.repos["cluster"]
	refs, err := repo.refs()
	if err != nil {
		t.Fatal(err)
	}
	w, err := repo.survey(t.Context(), refs, nil, time.Now().Add(time.Hour))
	if err != nil || w.idle() {
		t.Fatalf("%+v, %v", w, err)
	}
	dir := filepath.Join(repo.incoming, "gc-1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	base, err := w.write(dir)
	if err != nil {
		t.Fatal(err)
	}
	step := func(name string, do func() error) {
		if err := do(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		git(t, repo.dir, "fsck", "--full", "--strict")
		if got := git(t, clone, "ls-remote", "origin", "refs/heads/side1"); got[:40] != refs["refs/heads/side1"] {
			t.Errorf("%s: side1 is %s", name, got)
		}
	}
	mv := func(suffix string) func() error {
		return func() error { return os.Rename(filepath.Join(dir, base+suffix), filepath.Join(repo.dir, base+suffix)) }
	}
	if base == "" {
		t.Fatal("no new pack")
	}
	step("index", mv(".idx"))
	step("reopened", s.Open)
	if _, err := os.Stat(filepath.Join(repo.dir, base+".idx")); err == nil {
		t.Error("half of a pack is left")
	}
	if done := s.gc(t); done.Objects == 0 {
		t.Errorf("%+v", done)
	}
	s.verify(t)
}
