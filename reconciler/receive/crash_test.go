package receive

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/writ-os/writ/reconciler/source/pack"
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
		if err := q.receive(t.Context(), s.cfg.Sandbox, bytes.NewReader(pack), s.limits()); err != nil {
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

func TestManyPacksBecomeOne(t *testing.T) {
	s, clone := seeded(t)
	packs := func() int {
		names, err := filepath.Glob(filepath.Join(s.RepoDir("cluster"), "objects/pack/*.pack"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	for i := range manyPacks + 3 {
		write(t, clone, map[string]string{"web/deployment.yaml": strings.Repeat("kind: Deployment\n", i+2)})
		commit(t, clone, "Change")
		git(t, clone, "push", "-q", "origin", "main")
		if n := packs(); n > manyPacks {
			t.Fatalf("%d packs", n)
		}
	}
	if n := packs(); n > 5 {
		t.Errorf("%d packs are left", n)
	}
	s.verify(t)
	git(t, s.RepoDir("cluster"), "verify-pack", "-s", largest(t, filepath.Join(s.RepoDir("cluster"), "objects/pack/*.idx")))
	again := filepath.Join(t.TempDir(), "again")
	git(t, clone, "clone", "-q", s.as("viewer"), again)
	if a, b := git(t, again, "rev-parse", "HEAD"), git(t, clone, "rev-parse", "HEAD"); a != b {
		t.Errorf("cloned %s, want %s", a, b)
	}
}

// largest is the largest file of a pattern.
func largest(t *testing.T, pattern string) (path string) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	most := int64(-1)
	for _, n := range names {
		fi, err := os.Stat(n)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Size() > most {
			path, most = n, fi.Size()
		}
	}
	return path
}

// A client that goes away in the middle of its pack leaves nothing.
func TestClientGoesAway(t *testing.T) {
	s, clone := seeded(t)
	head := git(t, clone, "rev-parse", "HEAD")
	c, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("pusher", "token")
	body := pkt(head+" "+strings.Repeat("1", 40)+" refs/heads/main\x00report-status") + "0000PACK"
	_, err = fmt.Fprintf(c, "POST /git/cluster.git/git-receive-pack HTTP/1.1\r\nHost: writ\r\nAuthorization: %s\r\n"+
		"Content-Type: application/x-git-receive-pack-request\r\nContent-Length: %d\r\n\r\n%s",
		req.Header.Get("Authorization"), 32<<20, body)
	if err != nil {
		t.Fatal(err)
	}
	// More than any buffer on the way holds: the server is reading the pack
	// when this returns.
	if _, err := c.Write(make([]byte, 16<<20)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(s.repos["cluster"].incoming); err != nil || len(left) != 1 {
		t.Errorf("in quarantine: %v %v", left, err)
	}
	c.Close()
	s.close() // waits for the handler
	s.verify(t)
}

var pack1MiB = pack.Limits{Size: 1 << 20, Object: 1 << 20, Delta: 1 << 20, Total: 16 << 20, Objects: 1000}

func FuzzPack(f *testing.F) {
	s := newServer(f)
	_, pack, err := firstCommit(guestbook, "Guestbook", time.Unix(1e9, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pack)
	f.Add(pack[:len(pack)-1])
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		q, err := s.repos["cluster"].quarantine("refs/heads/main")
		if err != nil {
			t.Fatal(err)
		}
		defer q.close()
		if q.receive(t.Context(), s.cfg.Sandbox, bytes.NewReader(in), pack1MiB) != nil || q.base == "" {
			return
		}
		git(t, q.dir, "index-pack", "--strict", "--verify", q.base+".pack")
	})
}
