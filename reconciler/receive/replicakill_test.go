package receive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/reconciler/source"
)

// storedIn stands for the store that decides what the refs are: a file.
func storedIn(dir string) (refs map[string]string, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "stored.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &refs)
	}
	return refs, err
}

func storeIn(dir string, refs map[string]string) error {
	b, err := json.Marshal(refs)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "stored.tmp")
	return errors.Join(writeFile(tmp, string(b)), os.Rename(tmp, filepath.Join(dir, "stored.json")))
}

// toAdopt is what a child is told that adopts until it is killed.
type toAdopt struct {
	URL  string
	CA   []byte
	Refs []map[string]string // in turns
}

// liveUntilKilled is the process that the tests here kill: a server of several.
func liveUntilKilled(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	cfg := Config{Dir: filepath.Join(dir, "git"), Names: []string{"cluster"}, Log: slog.New(slog.DiscardHandler)}
	cfg.Commit = func(_ context.Context, _ string, refs map[string]string) (map[string]string, error) {
		time.Sleep(rand.N(8 * time.Millisecond)) // the others fetch it
		err := storeIn(dir, refs)
		time.Sleep(rand.N(8 * time.Millisecond))
		return nil, err
	}
	r := New(cfg)
	fail(r.Open())
	if b, err := os.ReadFile(filepath.Join(dir, "adopt.json")); err == nil {
		var a toAdopt
		fail(json.Unmarshal(b, &a))
		fmt.Println("http adopts")
		for i := 0; ; i++ {
			if missing, err := r.AdoptFrom(context.Background(), "cluster", a.URL, source.Auth{CA: a.CA}, a.Refs[i%len(a.Refs)]); err != nil || len(missing) > 0 {
				fail(fmt.Errorf("%v missing: %w", missing, err))
			}
		}
	}
	refs, err := storedIn(dir)
	fail(err)
	if missing, err := r.Adopt("cluster", refs); err != nil || len(missing) > 0 {
		fail(fmt.Errorf("what was accepted is lost: %v: %w", missing, err))
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		u := &user.DefaultInfo{Name: "pusher", Groups: []string{"writ:pushers"}}
		r.ServeHTTP(w, req.WithContext(request.WithUser(req.Context(), u)))
	}))
	fmt.Println("http", s.URL)
	select {}
}

// live starts such a process, and returns what it said first.
func live(t *testing.T, dir string) (kill func(), url string) {
	t.Helper()
	cmd, url := spawn(t, "RECEIVE_LIVE="+dir)
	return sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }), url
}

// afterDeath is what the next life finds.
func afterDeath(t *testing.T, dir string) *Remote {
	t.Helper()
	r := New(Config{Dir: filepath.Join(dir, "git"), Names: []string{"cluster"}})
	if err := r.Open(); err != nil {
		t.Fatal(err)
	}
	git(t, r.RepoDir("cluster"), "fsck", "--full", "--strict")
	return r
}

func lives(long int) int {
	if testing.Short() {
		return long / 4
	}
	return long
}

// TestKilledCommitting: whenever the server that takes pushes is killed, what the
// store says is whole, and holds every push that was accepted and none that was
// neither accepted nor on its way.
func TestKilledCommitting(t *testing.T) {
	dir, clone := t.TempDir(), t.TempDir()
	git(t, clone, "init", "-q", "-b", "main")
	accepted, pushes, between := "", 0, 0
	for round := range lives(12) {
		kill, url := live(t, dir)
		dead := time.AfterFunc(time.Duration(rand.IntN(700))*time.Millisecond, kill)
		sent := accepted
		for n := 0; ; n++ {
			write(t, clone, map[string]string{"a": fmt.Sprint(round, n, strings.Repeat("x", rand.IntN(9999)))})
			sent = commit(t, clone, "x")
			if _, err := tryGit(t, clone, "push", "-q", url, "main"); err != nil {
				break
			}
			accepted = sent
			pushes++
		}
		dead.Stop()
		kill()
		r := afterDeath(t, dir)
		stored, err := storedIn(dir)
		if err != nil {
			t.Fatal(err)
		}
		if here, err := r.Refs("cluster"); err != nil {
			t.Fatal(err)
		} else if !maps.Equal(here, stored) {
			between++
		}
		if missing, err := r.Adopt("cluster", stored); err != nil || len(missing) > 0 {
			t.Fatalf("round %d: what was accepted is lost: %v, %v", round, missing, err)
		}
		got, err := r.Refs("cluster")
		if err != nil || !maps.Equal(got, stored) {
			t.Fatalf("round %d: has %v, the store %v, %v", round, got, stored, err)
		}
		at := got["refs/heads/main"]
		if at != accepted && at != sent {
			t.Fatalf("round %d: main is %q, neither %s nor %s", round, at, accepted, sent)
		}
		git(t, r.RepoDir("cluster"), "fsck", "--full", "--strict")
		if accepted = at; at == "" {
			git(t, clone, "update-ref", "-d", "HEAD")
		} else {
			git(t, clone, "reset", "-q", "--hard", at)
		}
	}
	t.Logf("%d pushes were accepted; killed %d times between a move and its commit", pushes, between)
}

// TestKilledAdopting: whenever a server is killed that takes over what the store
// says, each ref is as before or as after, with all that it leads to, and the next
// life brings it to its end.
func TestKilledAdopting(t *testing.T) {
	p := newPeer(t)
	clone := pushedTo(t, p.server, "refs/heads/a", "refs/heads/main", "refs/heads/side")
	first := refsIn(t, p.server)
	git(t, clone, "push", "-q", "origin", ":a")
	for _, ref := range []string{"refs/heads/a/b", "refs/heads/main", "refs/tags/v1", "refs/heads/a/c"} {
		push(t, clone, ref)
	}
	second := refsIn(t, p.server)
	text, err := json.Marshal(toAdopt{p.at, p.auth.CA, []map[string]string{first, second}})
	if err != nil {
		t.Fatal(err)
	}
	half := 0
	for round := range lives(24) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "adopt.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		kill, _ := live(t, dir)
		time.Sleep(rand.N(600 * time.Millisecond))
		kill()
		r := afterDeath(t, dir)
		got, err := r.Refs("cluster")
		if err != nil {
			t.Fatal(err)
		}
		for ref, sha := range got {
			if sha != first[ref] && sha != second[ref] {
				t.Errorf("round %d: %s is %s", round, ref, sha)
			}
		}
		if !maps.Equal(got, first) && !maps.Equal(got, second) && len(got) > 0 {
			half++
		}
		if missing, err := r.AdoptFrom(t.Context(), "cluster", p.at, p.auth, second); err != nil || len(missing) > 0 {
			t.Fatalf("round %d: %v, %v", round, missing, err)
		}
		if got, err := r.Refs("cluster"); err != nil || !maps.Equal(got, second) {
			t.Errorf("round %d: has %v, %v", round, got, err)
		}
		git(t, r.RepoDir("cluster"), "fsck", "--full", "--strict")
	}
	t.Logf("%d times it was killed among its refs", half)
}
