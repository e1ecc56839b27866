package receive

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/reconciler/source"
)

// peer is a server of the same cluster, and how to reach it.
type peer struct {
	*server
	at   string
	auth source.Auth
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	s, ca := withCA(t)
	return &peer{s, s.as("admin"), source.Auth{CA: ca}}
}

func refsIn(t *testing.T, s *server) map[string]string {
	t.Helper()
	refs, err := s.Refs("cluster")
	if err != nil {
		t.Fatal(err)
	}
	return refs
}

// pushedTo is a clone of a server with commits pushed to it.
func pushedTo(t *testing.T, s *server, refs ...string) (clone string) {
	t.Helper()
	if _, err := s.Seed("cluster", guestbook, "Guestbook"); err != nil {
		t.Fatal(err)
	}
	clone = filepath.Join(t.TempDir(), "clone")
	git(t, t.TempDir(), "clone", "-q", s.as("pusher"), clone)
	for _, ref := range refs {
		push(t, clone, ref)
	}
	return clone
}

// push makes a commit and pushes it to a ref.
func push(t *testing.T, clone, ref string) string {
	t.Helper()
	write(t, clone, map[string]string{"a": ref + strings.Repeat("x", 2000) + time.Now().String()})
	sha := commit(t, clone, ref)
	git(t, clone, "push", "-q", "-f", "origin", "HEAD:"+ref)
	return sha
}

// TestAdopt: the refs become those that are given, also where a name was in the way
// of another, and nothing changes where that cannot be.
func TestAdopt(t *testing.T) {
	s := newServer(t)
	clone := pushedTo(t, s, "refs/heads/a", "refs/heads/main")
	before := refsIn(t, s)
	next := map[string]string{"refs/heads/main": before["refs/heads/a"], "refs/heads/a/b": before["refs/heads/main"], "refs/tags/v1": before["refs/heads/main"]}
	for _, refs := range []map[string]string{next, before, {}, next} {
		if missing, err := s.Adopt("cluster", refs); err != nil || len(missing) > 0 {
			t.Fatalf("%v: %v, %v", refs, missing, err)
		}
		if got := refsIn(t, s); !maps.Equal(got, refs) {
			t.Errorf("adopted %v, has %v", refs, got)
		}
		s.verify(t)
	}
	none := strings.Repeat("1", 40)
	for name, refs := range map[string]map[string]string{
		"missing":  {"refs/heads/main": none, "refs/heads/x": before["refs/heads/a"]},
		"a path":   {"refs/heads/../../x": before["refs/heads/a"]},
		"no ref":   {"refs/heads/ok": before["refs/heads/a"], "HEAD": before["refs/heads/a"]},
		"internal": {"refs/writ/x": before["refs/heads/a"]},
	} {
		missing, err := s.Adopt("cluster", refs)
		if name == "missing" != slices.Equal(missing, []string{none}) || name != "missing" && err == nil {
			t.Errorf("%s: %v, %v", name, missing, err)
		}
		if got := refsIn(t, s); !maps.Equal(got, next) {
			t.Errorf("%s: the refs are %v", name, got)
		}
	}
	if _, err := s.Adopt("nothing", next); err == nil {
		t.Error("adopted what is not served")
	}
	git(t, clone, "fetch", "-q", "--prune")
}

// TestAdoptFrom: what the store says is taken from a server that has it, wherever
// that one's own refs are by now, and nothing else is.
func TestAdoptFrom(t *testing.T) {
	p := newPeer(t)
	clone := pushedTo(t, p.server, "refs/heads/main", "refs/heads/side")
	stored := refsIn(t, p.server)
	// The push that followed was never accepted: it moved and deleted here alone.
	push(t, clone, "refs/heads/unaccepted")
	git(t, clone, "push", "-q", "origin", ":side")
	s := newServer(t)
	if missing, err := s.AdoptFrom(t.Context(), "cluster", p.at, p.auth, stored); err != nil || len(missing) > 0 {
		t.Fatal(missing, err)
	}
	if got := refsIn(t, s); !maps.Equal(got, stored) {
		t.Errorf("has %v, want %v", got, stored)
	}
	s.verify(t)
	// One that has some of it gives that, and says nothing of the rest.
	only := push(t, clone, "refs/heads/main")
	other := newPeer(t)
	theirs := pushedTo(t, other.server, "refs/heads/theirs")
	both := map[string]string{"refs/heads/main": only, "refs/heads/theirs": git(t, theirs, "rev-parse", "HEAD")}
	if missing, err := s.AdoptFrom(t.Context(), "cluster", p.at, p.auth, both); err != nil || !slices.Equal(missing, []string{both["refs/heads/theirs"]}) {
		t.Fatal(missing, err)
	}
	if got := refsIn(t, s); !maps.Equal(got, stored) {
		t.Errorf("half of it is there: %v", got)
	}
	if missing, err := s.AdoptFrom(t.Context(), "cluster", other.at, other.auth, both); err != nil || len(missing) > 0 {
		t.Fatal(missing, err)
	}
	if got := refsIn(t, s); !maps.Equal(got, both) {
		t.Errorf("has %v, want %v", got, both)
	}
	s.verify(t)
}

// TestFollowerStaysSmall: a server that takes no pushes itself, and is brought one
// after the other, keeps few packs.
func TestFollowerStaysSmall(t *testing.T) {
	p := newPeer(t)
	clone := pushedTo(t, p.server)
	pulls, adopts := newServer(t), newServer(t)
	for range manyPacks + 3 {
		push(t, clone, "refs/heads/main")
		if err := pulls.Pull(t.Context(), "cluster", p.at, p.auth); err != nil {
			t.Fatal(err)
		}
		if missing, err := adopts.AdoptFrom(t.Context(), "cluster", p.at, p.auth, refsIn(t, p.server)); err != nil || len(missing) > 0 {
			t.Fatal(missing, err)
		}
	}
	for _, s := range []*server{pulls, adopts} {
		packs, err := filepath.Glob(filepath.Join(s.RepoDir("cluster"), "objects/pack/*.pack"))
		if err != nil || len(packs) > manyPacks/2 || !maps.Equal(refsIn(t, s), refsIn(t, p.server)) {
			t.Errorf("%d packs, %v", len(packs), err)
		}
		s.verify(t)
	}
}

// liar stands before a server and changes what that answers to a fetch.
func liar(t *testing.T, p *peer, change func(body []byte) []byte) *peer {
	t.Helper()
	to, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(tr.CloseIdleConnections)
	proxy.Transport = tr
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method != http.MethodPost {
			return nil
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		if b = change(b); b == nil {
			return errors.New("gone")
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), -1
		r.Header.Del("Content-Length")
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	ts := httptest.NewTLSServer(proxy)
	t.Cleanup(ts.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ts.Certificate().Raw})
	return &peer{&server{Remote: p.Remote, url: ts.URL}, strings.Replace(ts.URL, "https://", "https://admin:token@", 1) + "/git/cluster.git", source.Auth{CA: ca}}
}

// TestPeerThatLies: whatever another server sends, half of it, something else, or
// nothing, no ref moves to what is not whole, and what was here stays.
func TestPeerThatLies(t *testing.T) {
	p := newPeer(t)
	clone := pushedTo(t, p.server, "refs/heads/main")
	old := refsIn(t, p.server)
	push(t, clone, "refs/heads/main")
	push(t, clone, "refs/heads/side")
	want := refsIn(t, p.server)

	stranger := newPeer(t)
	theirs := pushedTo(t, stranger.server, "refs/heads/main")
	foreign := gitBytes(t, theirs, "HEAD\n", "pack-objects", "--revs", "--stdout", "-q")
	commitAlone := gitBytes(t, clone, want["refs/heads/main"]+"\n", "pack-objects", "--stdout", "-q")
	inPack := func(pack []byte) []byte { // in the side band of the answer
		b := []byte(pkt("NAK\n"))
		for len(pack) > 0 {
			n := min(len(pack), 900)
			b = append(b, pkt("\x01"+string(pack[:n]))...)
			pack = pack[n:]
		}
		return append(b, "0000"...)
	}
	lies := map[string]func([]byte) []byte{
		"nothing":          func([]byte) []byte { return []byte{} },
		"goes away":        func([]byte) []byte { return nil },
		"no such object":   func([]byte) []byte { return []byte(pkt("ERR upload-pack: not our ref 1")) },
		"an empty pack":    func([]byte) []byte { return inPack(nil) },
		"a foreign pack":   func([]byte) []byte { return inPack(foreign) },
		"a commit alone":   func([]byte) []byte { return inPack(commitAlone) },
		"words":            func([]byte) []byte { return []byte("<html>") },
		"twice":            func(b []byte) []byte { return append(bytes.Clone(b), b...) },
		"an error at last": func(b []byte) []byte { return append(bytes.Clone(b[:len(b)-4]), pkt("\x03it fails")+"0000"...) },
	}
	for n := range 8 {
		lies[fmt.Sprintf("%d eighths", n)] = func(b []byte) []byte { return b[:len(b)*n/8] }
		lies[fmt.Sprintf("flipped at %d eighths", n)] = func(b []byte) []byte {
			b = bytes.Clone(b)
			b[len(b)*n/8+9] ^= 0x10
			return b
		}
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			if missing, err := s.AdoptFrom(t.Context(), "cluster", p.at, p.auth, old); err != nil || len(missing) > 0 {
				t.Fatal(missing, err)
			}
			l := liar(t, p, lie)
			for _, take := range map[string]func() error{
				"pull":  func() error { return s.Pull(t.Context(), "cluster", l.at, l.auth) },
				"adopt": func() error { _, err := s.AdoptFrom(t.Context(), "cluster", l.at, l.auth, want); return err },
			} {
				err := take()
				got := refsIn(t, s)
				if !maps.Equal(got, old) && !maps.Equal(got, want) {
					t.Errorf("the refs are %v (%v)", got, err)
				}
				s.verify(t) // all that refs lead to is there
			}
			// The next one that tells the truth is believed.
			if missing, err := s.AdoptFrom(t.Context(), "cluster", p.at, p.auth, want); err != nil || len(missing) > 0 || !maps.Equal(refsIn(t, s), want) {
				t.Errorf("afterwards: %v, %v", missing, err)
			}
			s.verify(t)
		})
	}
}

// TestPeerHangs: one that stops in the middle keeps nobody for longer than the
// context says, and leaves nothing.
func TestPeerHangs(t *testing.T) {
	p := newPeer(t)
	pushedTo(t, p.server, "refs/heads/main")
	want := refsIn(t, p.server)
	release := make(chan struct{})
	l := liar(t, p, func(b []byte) []byte { <-release; return b })
	s := newServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := s.AdoptFrom(ctx, "cluster", l.at, l.auth, want)
	if err == nil || time.Since(began) > 20*time.Second || len(refsIn(t, s)) > 0 {
		t.Errorf("%v after %v: %v", err, time.Since(began), refsIn(t, s))
	}
	close(release)
	s.verify(t)
}

// TestCommitRefused: a push that most of the servers do not keep is refused, and
// the refs are those that the store has; where that is not known they stay, until
// the store is asked.
func TestCommitRefused(t *testing.T) {
	var stored map[string]string // nil: it does not answer
	refuse := false
	s, clone := seeded(t, func(c *Config) {
		c.Commit = func(_ context.Context, _ string, refs map[string]string) (map[string]string, error) {
			if refuse {
				return stored, errors.New("too few")
			}
			stored = maps.Clone(refs)
			return nil, nil
		}
	})
	push(t, clone, "refs/heads/main")
	kept := refsIn(t, s)
	if !maps.Equal(kept, stored) {
		t.Errorf("the store has %v, here is %v", stored, kept)
	}
	told := len(s.pushed)
	refuse = true
	for _, spec := range []string{"HEAD:main", "HEAD:new", ":main", "HEAD~1:refs/heads/main/x"} {
		write(t, clone, map[string]string{"a": spec})
		commit(t, clone, spec)
		if out, err := tryGit(t, clone, "push", "-f", "origin", spec); err == nil || !strings.Contains(out, "not kept by most of the servers: too few") && !strings.Contains(out, "rejected") {
			t.Errorf("%s: %v\n%s", spec, err, out)
		}
		if got := refsIn(t, s); !maps.Equal(got, kept) {
			t.Errorf("%s: the refs are %v", spec, got)
		}
	}
	if len(s.pushed) != told {
		t.Errorf("the cluster was told of %v", s.pushed[told:])
	}
	saved := stored
	stored = nil
	if out, err := tryGit(t, clone, "push", "-f", "origin", "HEAD:main"); err == nil {
		t.Error(out)
	}
	if missing, err := s.Adopt("cluster", saved); err != nil || len(missing) > 0 || !maps.Equal(refsIn(t, s), kept) {
		t.Errorf("%v, %v: %v", missing, err, refsIn(t, s))
	}
	refuse = false
	git(t, clone, "push", "-q", "-f", "origin", "HEAD:main")
	if got := refsIn(t, s); !maps.Equal(got, stored) {
		t.Errorf("the store has %v, here is %v", stored, got)
	}
	s.verify(t)
}
