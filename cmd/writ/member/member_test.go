package member

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/store"
)

const secret = "the key of the cluster"

// host is a server that one may join by the token "server", and that has begun
// to be one of several after a number of requests.
type host struct {
	*httptest.Server
	ca    []byte
	added atomic.Int32
	log   bytes.Buffer
}

func newHost(t *testing.T, refusals int) *host {
	t.Helper()
	h := &host{}
	files := map[string][]byte{"shared/encryption.yaml": []byte(secret)}
	for _, f := range pki.Shared() {
		files["pki/"+f] = []byte(secret)
	}
	handler := &Host{
		Authorize: func(_ context.Context, u user.Info, verb, path string) (bool, error) {
			return u.GetName() == "server" && verb == "post" && path == "/servers/join" || u.GetName() == "viewer" && verb == "get", nil
		},
		Begin: func() error {
			if refusals--; refusals >= 0 {
				return ErrBecoming
			}
			return nil
		},
		Shared: func() (Shared, error) {
			return Shared{Files: files, Settings: []byte(`{"name":"prod"}`)}, nil
		},
		Add: func(_ context.Context, name, _ string) (*store.Joining, error) {
			if name == "taken" {
				return nil, errors.New("taken is a member already")
			}
			h.added.Add(1)
			return &store.Joining{ID: 7, Peers: []string{"https://192.0.2.1:2380"}}, nil
		},
		List: func(context.Context) ([]Server, error) {
			return []Server{{Member: store.Member{Name: "s1", Leader: true}}}, nil
		},
		Log: slog.New(slog.NewTextHandler(&h.log, nil)),
	}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); name != "" {
			r = r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: name}))
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	h.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	files["pki/"+pki.Shared()[0]] = h.ca
	return h
}

func (h *host) join(dir, token string) *Join {
	return &Join{DataDir: dir, Server: h.URL, Token: token, Discover: func(context.Context) ([]byte, error) { return h.ca, nil },
		Request: Request{Name: "s2", URL: "https://192.0.2.2:2380"}, Files: []string{"shared/encryption.yaml"}, Log: slog.New(slog.DiscardHandler)}
}

// TestWhoMayJoin: the keys are given to those alone whom the authorizer lets, and
// nothing of them is logged.
func TestWhoMayJoin(t *testing.T) {
	h := newHost(t, 0)
	for _, token := range []string{"", "agent", "viewer"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL+joinPath, strings.NewReader(`{"name":"s2","url":"https://192.0.2.2:2380"}`))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := h.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		_, _ = body.ReadFrom(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusUnauthorized || strings.Contains(body.String(), "files") {
			t.Errorf("token %q: %s %s", token, resp.Status, body.String())
		}
	}
	if h.added.Load() != 0 {
		t.Error("a server was added")
	}
	if err := h.join(t.TempDir(), "agent").Run(t.Context()); err == nil || !strings.Contains(err.Error(), "may not post /servers/join") {
		t.Errorf("by the token of an agent: %v", err)
	}
	if err := h.join(t.TempDir(), "server").Run(t.Context()); err != nil {
		t.Errorf("by the token of a server: %v", err)
	}
	if log := h.log.String(); strings.Contains(log, secret) || !strings.Contains(log, "name=s2") || !strings.Contains(log, "user=server") {
		t.Errorf("log:\n%s", log)
	}
}

// TestJoin: what is given is kept, for this user alone; a refusal ends it; one
// that is alone is asked again.
func TestJoin(t *testing.T) {
	h := newHost(t, 2)
	dir := t.TempDir()
	if err := h.join(dir, "server").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := ReadState(dir)
	if err != nil || s.Name != "s2" || !slices.Equal(s.Peers, []string{"https://192.0.2.1:2380"}) || !strings.Contains(string(s.Settings), "prod") {
		t.Errorf("%+v, %v", s, err)
	}
	for _, f := range append([]string{"members.json", "shared/encryption.yaml"}, "pki/"+pki.Shared()[1]) {
		if i, err := os.Stat(filepath.Join(dir, f)); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, i, err)
		}
	}
	j := h.join(t.TempDir(), "server")
	j.Request.Name = "taken"
	if err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "is a member already") {
		t.Errorf("a name that is taken: %v", err)
	}
	j = h.join(t.TempDir(), "server")
	j.Files = nil
	if err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "that no server shares") {
		t.Errorf("a file that nobody asked for: %v", err)
	}
	c := Client{HTTP: h.Client(), Server: h.URL}
	if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("list without a credential: %v", err)
	}
}

// TestKilled: a machine that died at any point of joining joins by the same
// command, and one that has data joins no more.
func TestKilled(t *testing.T) {
	h := newHost(t, 0)
	whole := t.TempDir()
	if err := h.join(whole, "server").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The files in the order in which they are written.
	order := []string{"shared/encryption.yaml"}
	for _, f := range pki.Shared() {
		order = append(order, "pki/"+f)
	}
	order = append(order, "members.json")
	for n := range len(order) + 1 {
		dir := t.TempDir()
		for _, f := range order[:n] {
			b, err := os.ReadFile(filepath.Join(whole, f))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o700), os.WriteFile(filepath.Join(dir, f), b, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.join(dir, "server").Run(t.Context()); err != nil {
			t.Errorf("killed after %d files: %v", n, err)
		}
		if s, err := ReadState(dir); err != nil || s == nil {
			t.Errorf("killed after %d files: %v, %v", n, s, err)
		}
	}
	// With the last of them it needs no token, nor one that lives.
	asked := h.added.Load()
	for _, token := range []string{"", "agent"} {
		if err := h.join(whole, token).Run(t.Context()); err != nil || h.added.Load() != asked {
			t.Errorf("by the token %q, killed before its store: %v", token, err)
		}
	}
	if err := h.join(whole, "server").Run(t.Context()); err != nil || h.added.Load() != asked+1 {
		t.Errorf("by a token that lives, killed before its store: %v", err)
	}
	away := h.join(whole, "server")
	away.Discover = func(context.Context) ([]byte, error) { return nil, errors.New("nobody there") }
	if err := away.Run(t.Context()); err != nil {
		t.Errorf("killed before its store, and the server that it joined by is gone: %v", err)
	}
	other := h.join(whole, "server")
	other.Discover = func(context.Context) ([]byte, error) { return []byte("another"), nil }
	if err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "keys of another cluster") {
		t.Errorf("killed before its store, and told of another cluster: %v", err)
	}
	first := t.TempDir()
	if err := (&State{Name: "s1"}).Write(first); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", "agent"} {
		if err := h.join(first, token).Run(t.Context()); err == nil {
			t.Errorf("the first of several begins without its data, by the token %q", token)
		}
	}
	began := func(dir string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, "store", "member", "wal"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	asked = h.added.Load()
	began(whole)
	if err := h.join(whole, "").Run(t.Context()); err != nil || h.added.Load() != asked {
		t.Errorf("one that has joined: %v, asked again: %v", err, h.added.Load() != asked)
	}
	another := t.TempDir()
	began(another)
	if err := h.join(another, "server").Run(t.Context()); err == nil || !strings.Contains(err.Error(), "a cluster of its own") {
		t.Errorf("one that is alone: %v", err)
	}
	another = t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(another, "pki"), 0o700), os.WriteFile(filepath.Join(another, "pki", "ca.crt"), []byte("another"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := h.join(another, "server").Run(t.Context()); err == nil || !strings.Contains(err.Error(), "keys of another cluster") {
		t.Errorf("one of another cluster: %v", err)
	}
	if err := h.join(t.TempDir(), "").Run(t.Context()); err == nil || !strings.Contains(err.Error(), "needs --token") {
		t.Errorf("without a token: %v", err)
	}
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	if s, err := ReadState(dir); s != nil || err != nil {
		t.Errorf("%v, %v", s, err)
	}
	for _, text := range []string{"", "{", "{}", "[]"} {
		if err := os.WriteFile(filepath.Join(dir, stateFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := ReadState(dir); err == nil {
			t.Errorf("%q: %s", text, fmt.Sprint(s))
		}
	}
}
