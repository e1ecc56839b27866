package receive

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// What a crash can leave, at each step of a push, is gone after Open, and the
// repository is whole.
func TestOpenClearsWhatACrashLeft(t *testing.T) {
	s, clone := seeded(t)
	repo := s.repos["cluster"]
	head := git(t, clone, "rev-parse", "HEAD")
	write(t, clone, map[string]string{"a": "1"})
	next := commit(t, clone, "One")
	pack := gitBytes(t, clone, next+"\n^"+head+"\n", "pack-objects", "--revs", "--stdout", "-q")

	begin := func() *quarantine {
		t.Helper()
		q, err := repo.quarantine("refs/heads/main")
		if err != nil {
			t.Fatal(err)
		}
		if err := q.receive(bytes.NewReader(pack), 1<<20); err != nil {
			t.Fatal(err)
		}
		return q
	}
	steps := map[string]func(){
		"received": func() { begin() },
		"index moved": func() {
			q := begin()
			if err := os.Rename(filepath.Join(q.dir, q.base+".idx"), filepath.Join(repo.dir, q.base+".idx")); err != nil {
				t.Fatal(err)
			}
		},
		"pack moved": func() {
			if err := begin().promote(); err != nil {
				t.Fatal(err)
			}
		},
		"ref written aside": func() {
			if err := os.WriteFile(filepath.Join(repo.incoming, "ref-1"), []byte(next), 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"foreign temporary pack": func() {
			if err := os.WriteFile(filepath.Join(repo.dir, "objects/pack/tmp_pack_x"), pack[:10], 0o644); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, crash := range steps {
		t.Run(name, func(t *testing.T) {
			crash()
			// The server is not told; it reads what it would read after the crash.
			if got := git(t, clone, "ls-remote", "origin", "refs/heads/main"); got[:40] != head {
				t.Errorf("main is %s, want %s", got, head)
			}
			if err := s.Open(); err != nil {
				t.Fatal(err)
			}
			s.verify(t)
			names, err := filepath.Glob(filepath.Join(repo.dir, "objects/pack/*"))
			if err != nil || len(names)%2 != 0 {
				t.Errorf("packs and indexes: %v %v", names, err)
			}
		})
	}
	git(t, clone, "push", "-q", "origin", "main")
	s.verify(t)
}

func TestOpenRefusesNames(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", ".incoming", "-x"} {
		if err := New(Config{Dir: t.TempDir(), Names: []string{name}}).Open(); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

func TestSeedIsWholeAndOnce(t *testing.T) {
	s := newServer(t)
	first, err := s.Seed("cluster", guestbook, "Guestbook")
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Seed("cluster", fstest.MapFS{"x": {}}, "Other")
	if err != nil || again != first {
		t.Errorf("seeded twice: %s then %s %v", first, again, err)
	}
	if got := git(t, s.RepoDir("cluster"), "ls-tree", "-r", "--name-only", first); got != "README.md\nweb/deployment.yaml\nweb/service.yaml" {
		t.Errorf("files:\n%s", got)
	}
	if _, err := s.Seed("nothing", guestbook, "x"); err == nil {
		t.Error("seeded a repository that is not served")
	}
	s.verify(t)
}
