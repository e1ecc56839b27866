package receive

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

func TestRefusedPushLeavesNothing(t *testing.T) {
	s, clone := seeded(t)
	before := git(t, s.RepoDir("cluster"), "rev-parse", "main")
	var seen Push
	s.checkWith(func(_ context.Context, p Push) ([]string, error) {
		seen = p
		// Both commits can be read with go-git, as the checks of the cluster do.
		repo, err := gogit.PlainOpen(p.Dir)
		if err != nil {
			return nil, err
		}
		for _, sha := range []string{p.Old, p.New} {
			c, err := repo.CommitObject(plumbing.NewHash(sha))
			if err != nil {
				return nil, err
			}
			if _, err := c.File("web/service.yaml"); err != nil {
				return nil, err
			}
		}
		return []string{"web/deployment.yaml:3:5: unknown field", "1 finding"}, errors.New("1 finding\nin 1 file")
	})
	write(t, clone, map[string]string{"web/deployment.yaml": "kind: Deployment\nspce: {}\n"})
	sha := commit(t, clone, "Mistake")
	out, err := tryGit(t, clone, "push", "origin", "main")
	if err == nil {
		t.Fatalf("accepted:\n%s", out)
	}
	for _, want := range []string{"remote: web/deployment.yaml:3:5: unknown field", "remote: 1 finding", "(1 finding in 1 file)"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if want := (Push{Repository: "cluster", Ref: "refs/heads/main", Old: before, New: sha, User: "pusher", Dir: seen.Dir}); seen != want {
		t.Errorf("checked %+v, want %+v", seen, want)
	}
	if got := git(t, s.RepoDir("cluster"), "rev-parse", "main"); got != before {
		t.Errorf("main moved to %s", got)
	}
	if out, err := tryGit(t, s.RepoDir("cluster"), "cat-file", "-e", sha); err == nil {
		t.Errorf("the refused commit is there: %s", out)
	}
	if len(s.pushed) > 0 {
		t.Errorf("pushed %v", s.pushed)
	}
	s.verify(t)

	s.checkWith(func(context.Context, Push) ([]string, error) { return []string{"looks good"}, nil })
	if out := git(t, clone, "push", "origin", "main"); !strings.Contains(out, "remote: looks good") {
		t.Errorf("no line of the check in\n%s", out)
	}
}

func TestBranchMovesForwardOnly(t *testing.T) {
	for _, allow := range []bool{false, true} {
		t.Run(fmt.Sprint("allow=", allow), func(t *testing.T) {
			s, clone := seeded(t, func(c *Config) { c.AllowForce = allow })
			write(t, clone, map[string]string{"a": "1"})
			commit(t, clone, "One")
			git(t, clone, "push", "-q", "origin", "main", "main:side")
			git(t, clone, "commit", "-q", "--amend", "-m", "Rewritten")
			out, err := tryGit(t, clone, "push", "--force", "origin", "main")
			if (err == nil) != allow || !allow && !strings.Contains(out, "non-fast-forward: the cluster follows") {
				t.Errorf("forced push of main: %v\n%s", err, out)
			}
			git(t, clone, "push", "-q", "--force", "origin", "main:side")
			out, err = tryGit(t, clone, "push", "origin", ":main")
			if (err == nil) != allow || !allow && !strings.Contains(out, "it cannot be deleted") {
				t.Errorf("delete of main: %v\n%s", err, out)
			}
			git(t, clone, "push", "-q", "origin", ":side")
			if refs := git(t, s.RepoDir("cluster"), "for-each-ref", "refs/heads/side"); refs != "" {
				t.Errorf("side is still there: %s", refs)
			}
			s.verify(t)
		})
	}
}

func TestConcurrentPushesHaveOneWinner(t *testing.T) {
	s, first := seeded(t)
	const n = 4
	clones := []string{first}
	for len(clones) < n {
		c := filepath.Join(t.TempDir(), "clone")
		git(t, t.TempDir(), "clone", "-q", s.as("pusher"), c)
		clones = append(clones, c)
	}
	// Every push is held in its check until all have arrived there.
	var arrived sync.WaitGroup
	arrived.Add(n)
	s.checkWith(func(context.Context, Push) ([]string, error) {
		arrived.Done()
		arrived.Wait()
		return nil, nil
	})
	type result struct {
		out string
		err error
	}
	results := make([]result, n)
	var all sync.WaitGroup
	for i, c := range clones {
		write(t, c, map[string]string{"winner": fmt.Sprint(i)})
		commit(t, c, fmt.Sprint("Push ", i))
		who := []string{"pusher", "admin"}[i%2] // one user has no seats for all
		all.Go(func() { results[i].out, results[i].err = tryGit(t, c, "push", s.as(who), "main") })
	}
	all.Wait()
	winner := -1
	for i, r := range results {
		switch {
		case r.err == nil && winner >= 0:
			t.Errorf("%d and %d won", winner, i)
		case r.err == nil:
			winner = i
		case !strings.Contains(r.out, "fetch first"):
			t.Errorf("loser %d was told\n%s", i, r.out)
		}
	}
	if winner < 0 {
		t.Fatal("nobody won")
	}
	if got := git(t, s.RepoDir("cluster"), "show", "main:winner"); got != fmt.Sprint(winner) {
		t.Errorf("main is of %s, want %d", got, winner)
	}
	s.verify(t)
	// A loser fetches, rebases and gets in.
	loser := clones[(winner+1)%n]
	s.checkWith(nil)
	git(t, loser, "pull", "-q", "--rebase", "-X", "theirs", "origin", "main")
	git(t, loser, "push", "-q", "origin", "main")
}

func TestAtomicPush(t *testing.T) {
	s, clone := seeded(t)
	s.checkWith(func(_ context.Context, p Push) ([]string, error) {
		if p.Ref == "refs/heads/bad" {
			return nil, errors.New("bad")
		}
		return nil, nil
	})
	write(t, clone, map[string]string{"a": "1"})
	commit(t, clone, "One")
	out, err := tryGit(t, clone, "push", "--atomic", "origin", "main", "main:bad", "main:good")
	if err == nil || !strings.Contains(out, "atomic push failed") {
		t.Errorf("atomic push: %v\n%s", err, out)
	}
	if got := git(t, s.RepoDir("cluster"), "for-each-ref", "--format=%(refname)"); got != "refs/heads/main" {
		t.Errorf("refs: %s", got)
	}
	if _, err := tryGit(t, clone, "push", "origin", "main", "main:bad", "main:good"); err == nil {
		t.Error("bad was accepted")
	}
	if got := git(t, s.RepoDir("cluster"), "for-each-ref", "--format=%(refname)"); got != "refs/heads/good\nrefs/heads/main" {
		t.Errorf("refs: %s", got)
	}
	s.verify(t)
}

func TestBranchesAndTags(t *testing.T) {
	s, clone := seeded(t)
	git(t, clone, "tag", "-a", "v1", "-m", "First")
	git(t, clone, "push", "-q", "origin", "v1", "main:a/b")
	if out, err := tryGit(t, clone, "push", "origin", "main:a"); err == nil || !strings.Contains(out, "clashes with refs/heads/a/b") {
		t.Errorf("a beside a/b: %v\n%s", err, out)
	}
	git(t, clone, "push", "-q", "origin", ":a/b")
	git(t, clone, "push", "-q", "origin", "main:a")
	if out, err := tryGit(t, clone, "push", "origin", "main:refs/secret/x"); err == nil || !strings.Contains(out, "can be pushed") {
		t.Errorf("refs/secret/x: %v\n%s", err, out)
	}
	// git packs refs when a person tidies the folder up; they count as well.
	git(t, s.RepoDir("cluster"), "pack-refs", "--all")
	git(t, clone, "push", "-q", "origin", ":a")
	if got := git(t, clone, "ls-remote", s.as("viewer")); strings.Count(got, "\n") != 3 || !strings.Contains(got, "refs/tags/v1^{}") {
		t.Errorf("refs:\n%s", got)
	}
	again := filepath.Join(t.TempDir(), "again")
	git(t, clone, "clone", "-q", s.as("viewer"), again)
	if got := git(t, again, "describe"); got != "v1" {
		t.Errorf("described as %s", got)
	}
	s.verify(t)
}

func TestPushTooLarge(t *testing.T) {
	noise := make([]byte, 300_000)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	tests := map[string]string{
		"pack":   string(noise),
		"object": strings.Repeat("a", 300_000), // a small pack that grows
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			s, clone := seeded(t, func(c *Config) { c.MaxPack = 100_000 })
			write(t, clone, map[string]string{"big": content})
			commit(t, clone, "Big")
			out, err := tryGit(t, clone, "push", "origin", "main")
			if err == nil || !strings.Contains(out, "push too large") {
				t.Errorf("%v\n%s", err, out)
			}
			s.verify(t)
		})
	}
}

func TestBigPush(t *testing.T) {
	s, clone := seeded(t)
	files := make(map[string]string)
	for i := range 5000 {
		files[fmt.Sprintf("apps/%02d/config-%04d.yaml", i%50, i)] = fmt.Sprintf("kind: ConfigMap\nmetadata:\n  name: c%d\n%s", i, strings.Repeat("# padding\n", i%40))
	}
	write(t, clone, files)
	sha := commit(t, clone, "Many")
	git(t, clone, "-c", "http.postBuffer=65536", "push", "-q", "origin", "main") // chunked
	again := filepath.Join(t.TempDir(), "again")
	git(t, clone, "clone", "-q", s.as("viewer"), again)
	if got := git(t, again, "rev-parse", "HEAD"); got != sha {
		t.Errorf("cloned %s, want %s", got, sha)
	}
	if got := git(t, again, "status", "--porcelain"); got != "" {
		t.Errorf("the clone differs: %s", got)
	}
	s.verify(t)
}

func TestIncompletePackIsRefused(t *testing.T) {
	s, clone := seeded(t)
	write(t, clone, map[string]string{"a": "1"})
	sha := commit(t, clone, "One")
	old := git(t, s.RepoDir("cluster"), "rev-parse", "main")
	// The commit without its tree.
	pack := gitBytes(t, clone, sha+"\n", "pack-objects", "--stdout", "-q")
	got := post(t, s, receivePack, pkt(old+" "+sha+" refs/heads/main\x00report-status\n")+"0000"+string(pack), nil)
	if !strings.Contains(got, "unpack missing objects") || !strings.Contains(got, "ng refs/heads/main missing objects") {
		t.Errorf("answer: %q", got)
	}
	if out, err := tryGit(t, s.RepoDir("cluster"), "cat-file", "-e", sha); err == nil {
		t.Errorf("the commit is there: %s", out)
	}
	s.verify(t)
}
