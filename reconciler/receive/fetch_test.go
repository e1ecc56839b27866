package receive

import (
	"fmt"
	"path/filepath"
	"testing"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/memory"
)

// history pushes the commits from..to onto main, one file each.
func history(t *testing.T, clone string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		write(t, clone, map[string]string{fmt.Sprintf("apps/%d/app.yaml", i): fmt.Sprint("app: ", i)})
		commit(t, clone, fmt.Sprint("App ", i))
	}
	git(t, clone, "push", "-q", "origin", "main")
}

func TestShallowClone(t *testing.T) {
	s, clone := seeded(t)
	history(t, clone, 0, 5)
	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, clone, "clone", "-q", "--depth", "1", s.as("viewer"), shallow)
	count := func(want string) {
		t.Helper()
		if got := git(t, shallow, "rev-list", "--count", "origin/main"); got != want {
			t.Errorf("%s commits, want %s", got, want)
		}
		git(t, shallow, "fsck", "--full", "--strict")
	}
	count("1")
	history(t, clone, 5, 7)
	git(t, shallow, "fetch", "-q")
	count("3")
	git(t, shallow, "fetch", "-q", "--depth", "4")
	count("4")
	git(t, shallow, "fetch", "-q", "--depth", "2")
	count("2")
	git(t, shallow, "fetch", "-q", "--unshallow")
	count("8")
	// A shallow clone may push.
	again := filepath.Join(t.TempDir(), "again")
	git(t, clone, "clone", "-q", "--depth", "1", s.as("pusher"), again)
	write(t, again, map[string]string{"new": "1"})
	commit(t, again, "From a shallow clone")
	git(t, again, "push", "-q", "origin", "main")
	s.verify(t)
}

func TestFetchSendsTheDifference(t *testing.T) {
	s, clone := seeded(t)
	history(t, clone, 0, 40) // more than git lists in its first round
	other := filepath.Join(t.TempDir(), "other")
	git(t, clone, "clone", "-q", s.as("pusher"), other)
	// Both sides go on, so that the newest haves are unknown to the server.
	for i := range 20 {
		write(t, other, map[string]string{"mine": fmt.Sprint(i)})
		commit(t, other, "Mine")
	}
	write(t, clone, map[string]string{"apps/0/app.yaml": "changed"})
	sha := commit(t, clone, "Theirs")
	git(t, clone, "push", "-q", "origin", "main")
	before := countObjects(t, other)
	git(t, other, "fetch", "-q")
	if got := git(t, other, "rev-parse", "origin/main"); got != sha {
		t.Errorf("fetched %s, want %s", got, sha)
	}
	if n := countObjects(t, other) - before; n != 5 { // commit, three trees, blob
		t.Errorf("%d objects came, want 5", n)
	}
	git(t, other, "fsck", "--full", "--strict")
	// A merge, with its two sides.
	git(t, other, "merge", "-q", "--no-edit", "origin/main")
	git(t, other, "push", "-q", "origin", "HEAD:main")
	git(t, clone, "pull", "-q")
	git(t, clone, "fsck", "--full", "--strict")
	s.verify(t)
}

// countObjects counts the objects of a clone.
func countObjects(t *testing.T, dir string) (n int) {
	t.Helper()
	out := git(t, dir, "cat-file", "--batch-all-objects", "--batch-check=x")
	for range out {
		n++
	}
	return (n + 1) / 2
}

func TestEmptyRepository(t *testing.T) {
	s := newServer(t)
	clone := filepath.Join(t.TempDir(), "clone")
	git(t, t.TempDir(), "clone", "-q", s.as("pusher"), clone)
	git(t, clone, "checkout", "-q", "-b", "main")
	write(t, clone, map[string]string{"a": "1"})
	sha := commit(t, clone, "First")
	git(t, clone, "push", "-q", "origin", "main")
	if got, err := s.Seed("cluster", guestbook, "Guestbook"); got != sha || err != nil {
		t.Errorf("seed of a used repository: %s %v, want %s", got, err, sha)
	}
	s.verify(t)
}

// The cluster's own source follows the remote with go-git, which negotiates
// in its own way.
func TestGoGitClient(t *testing.T) {
	s, clone := seeded(t)
	history(t, clone, 0, 5)
	for _, depth := range []int{0, 1} {
		t.Run(fmt.Sprint("depth=", depth), func(t *testing.T) {
			auth := &githttp.BasicAuth{Username: "viewer", Password: "token"}
			repo, err := gogit.Clone(memory.NewStorage(), nil, &gogit.CloneOptions{URL: s.url + "/git/cluster.git", Auth: auth,
				Depth: depth, SingleBranch: true, ReferenceName: plumbing.NewBranchReferenceName("main"), Tags: gogit.NoTags, InsecureSkipTLS: true})
			if err != nil {
				t.Fatal(err)
			}
			write(t, clone, map[string]string{"more": fmt.Sprint(depth)})
			sha := commit(t, clone, "More")
			git(t, clone, "push", "-q", "origin", "main")
			st := repo.Storer.(*memory.Storage)
			before := len(st.Objects)
			err = repo.Fetch(&gogit.FetchOptions{Auth: auth, Tags: gogit.NoTags, InsecureSkipTLS: true,
				RefSpecs: []config.RefSpec{"+refs/heads/main:refs/remotes/origin/main"}})
			if err != nil {
				t.Fatal(err)
			}
			if n := len(st.Objects) - before; n != 3 { // commit, tree, blob
				t.Errorf("%d objects came, want 3", n)
			}
			c, err := repo.CommitObject(plumbing.NewHash(sha))
			if err != nil {
				t.Fatal(err)
			}
			if f, err := c.File("apps/0/app.yaml"); err != nil {
				t.Errorf("an unchanged file: %v %v", f, err)
			}
		})
	}
}
