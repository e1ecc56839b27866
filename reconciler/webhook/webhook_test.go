package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

var secret = []byte("it's a secret")

// heard is a handler for the repository infra and what it notified.
type heard struct {
	*Handler
	woken []string
	log   bytes.Buffer
	now   time.Time
}

func newHandler(hook Hook) *heard {
	h := &heard{now: time.Unix(1_700_000_000, 0)}
	h.Handler = New(Config{
		Lookup: func(name string) (Hook, bool) { return hook, name == "infra" },
		Notify: func(name string) { h.woken = append(h.woken, name) },
		Log:    slog.New(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now:    func() time.Time { return h.now },
	})
	return h
}

func (h *heard) post(path, body string, header ...string) (int, string) {
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Code, strings.TrimSpace(w.Body.String())
}

func mac(body string) string { return hex.EncodeToString(sign(secret, []byte(body))) }

func standard(id, at, body string) string {
	return "v1," + base64.StdEncoding.EncodeToString(sign(secret, []byte(id+"."+at+"."+body)))
}

const (
	push   = `{"ref":"refs/heads/main","after":"0"}`
	other  = `{"ref":"refs/heads/other"}`
	tag    = `{"ref":"v1","ref_type":"tag"}`
	cloud  = `{"push":{"changes":[{"old":null,"new":{"type":"branch","name":"main"}}]}}`
	gone   = `{"push":{"changes":[{"old":{"type":"branch","name":"other"},"new":null}]}}`
	center = `{"changes":[{"refId":"refs/heads/main"}]}`
)

func TestProviders(t *testing.T) {
	at := "1700000010"
	for _, tt := range []struct {
		name     string
		provider Provider
		body     string
		header   []string
		status   int
		text     string
	}{
		{"github", GitHub, push, []string{"X-Hub-Signature-256", "sha256=" + mac(push), "X-GitHub-Event", "push"}, 202, ""},
		{"github other branch", GitHub, other, []string{"X-Hub-Signature-256", "sha256=" + mac(other), "X-GitHub-Event", "push"}, 200, "not followed"},
		{"github tag", GitHub, tag, []string{"X-Hub-Signature-256", "sha256=" + mac(tag), "X-GitHub-Event", "create"}, 202, ""},
		{"github ping", GitHub, "{}", []string{"X-Hub-Signature-256", "sha256=" + mac("{}"), "X-GitHub-Event", "ping"}, 200, "the webhook works"},
		{"github star", GitHub, "{}", []string{"X-Hub-Signature-256", "sha256=" + mac("{}"), "X-GitHub-Event", "star"}, 200, "only pushes"},
		{"github sha1", GitHub, push, []string{"X-Hub-Signature", "sha1=00", "X-GitHub-Event", "push"}, 401, "take SHA-256"},
		{"github wrong", GitHub, push, []string{"X-Hub-Signature-256", "sha256=" + mac(other), "X-GitHub-Event", "push"}, 401, "is wrong"},
		{"github no prefix", GitHub, push, []string{"X-Hub-Signature-256", mac(push), "X-GitHub-Event", "push"}, 401, "hexadecimal"},
		{"github short", GitHub, push, []string{"X-Hub-Signature-256", "sha256=" + mac(push)[:8]}, 401, "hexadecimal"},
		{"github not JSON", GitHub, "push", []string{"X-Hub-Signature-256", "sha256=" + mac("push"), "X-GitHub-Event", "push"}, 400, "JSON"},
		{"github not JSON, not signed", GitHub, "push", []string{"X-Hub-Signature-256", "sha256=" + mac(push), "X-GitHub-Event", "push"}, 401, "is wrong"},
		{"github form", GitHub, "payload=" + url.QueryEscape(push), []string{"X-Hub-Signature-256", "sha256=" + mac("payload="+url.QueryEscape(push)), "X-GitHub-Event", "push",
			"Content-Type", "application/x-www-form-urlencoded"}, 202, ""},
		{"gitlab token", GitLab, push, []string{"X-Gitlab-Token", string(secret), "X-Gitlab-Event", "Push Hook"}, 202, ""},
		{"gitlab wrong token", GitLab, push, []string{"X-Gitlab-Token", "no", "X-Gitlab-Event", "Push Hook"}, 401, "is wrong"},
		{"gitlab nothing", GitLab, push, []string{"X-Gitlab-Event", "Push Hook"}, 401, "set the secret"},
		{"gitlab signed", GitLab, push, []string{"Webhook-Id", "1", "Webhook-Timestamp", at, "Webhook-Signature", "v1,AAAA " + standard("1", at, push), "X-Gitlab-Event", "Push Hook"}, 202, ""},
		{"gitlab signed another id", GitLab, push, []string{"Webhook-Id", "2", "Webhook-Timestamp", at, "Webhook-Signature", standard("1", at, push), "X-Gitlab-Event", "Push Hook"}, 401, "is wrong"},
		{"gitlab wrong signature beside a token", GitLab, push, []string{"X-Gitlab-Token", string(secret), "Webhook-Id", "1", "Webhook-Timestamp", at, "Webhook-Signature", "v1,AAAA"}, 401, "is wrong"},
		{"gitlab old", GitLab, push, []string{"Webhook-Id", "1", "Webhook-Timestamp", "1699999000", "Webhook-Signature", standard("1", "1699999000", push), "X-Gitlab-Event", "Push Hook"}, 403, "more than 5m0s ago"},
		{"gitlab issue", GitLab, "{}", []string{"X-Gitlab-Token", string(secret), "X-Gitlab-Event", "Issue Hook"}, 200, "only pushes"},
		{"gitea", Gitea, push, []string{"X-Gitea-Signature", mac(push), "X-Gitea-Event", "push"}, 202, ""},
		{"forgejo", Gitea, push, []string{"X-Forgejo-Signature", mac(push), "X-Gitea-Signature", "00", "X-Forgejo-Event", "push"}, 202, ""},
		{"gitea unsigned", Gitea, push, []string{"X-Gitea-Event", "push"}, 401, "no X-Gitea-Signature"},
		{"bitbucket cloud", Bitbucket, cloud, []string{"X-Hub-Signature", "sha256=" + mac(cloud), "X-Event-Key", "repo:push"}, 202, ""},
		{"bitbucket branch gone", Bitbucket, gone, []string{"X-Hub-Signature", "sha256=" + mac(gone), "X-Event-Key", "repo:push"}, 200, "not followed"},
		{"bitbucket data center", Bitbucket, center, []string{"X-Hub-Signature", "sha256=" + mac(center), "X-Event-Key", "repo:refs_changed"}, 202, ""},
		{"bitbucket ping", Bitbucket, "{}", []string{"X-Hub-Signature", "sha256=" + mac("{}"), "X-Event-Key", "diagnostics:ping"}, 200, "works"},
		{"generic", Generic, push, []string{"X-Signature", "sha256=" + mac(push)}, 202, ""},
		{"generic empty", Generic, "", []string{"X-Signature", "sha256=" + mac("")}, 202, ""},
		{"generic wrong", Generic, push, []string{"X-Signature", "sha256=" + mac("")}, 401, "is wrong"},
		{"no provider", "svn", push, []string{"X-Signature", "sha256=" + mac(push)}, 403, "no provider"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHandler(Hook{Provider: tt.provider, Secret: secret, Refs: []string{"refs/heads/main", "refs/tags/*"}})
			status, text := h.post("/hooks/infra", tt.body, tt.header...)
			if status != tt.status || !strings.Contains(text, tt.text) {
				t.Errorf("%d %q, want %d %q", status, text, tt.status, tt.text)
			}
			if woken := len(h.woken) > 0; woken != (status == 202) {
				t.Errorf("woken: %v", h.woken)
			}
			if out := h.log.String() + text; strings.Contains(out, string(secret)) || strings.Contains(out, mac(tt.body)) {
				t.Errorf("the secret or a signature is told: %s", out)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	signed := []string{"X-Signature", "sha256=" + mac(push)}
	h := newHandler(Hook{Provider: Generic, Secret: secret})
	if status, text := h.post("/hooks/none", push, signed...); status != 404 || !strings.Contains(text, "spec.webhook") {
		t.Errorf("%d %s", status, text)
	}
	for _, path := range []string{"/hooks/", "/hooks/infra/x", "/hooks"} {
		if status, _ := h.post(path, push, signed...); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/hooks/infra", nil))
	if w.Code != 405 || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET: %d", w.Code)
	}
	if status, _ := newHandler(Hook{Provider: Generic}).post("/hooks/infra", push, "X-Signature", "sha256="+hex.EncodeToString(sign(nil, []byte(push)))); status != 403 {
		t.Errorf("without a secret: %d", status)
	}
	if len(h.woken) > 0 {
		t.Errorf("woken: %v", h.woken)
	}
}

func TestBodyIsBounded(t *testing.T) {
	h := newHandler(Hook{Provider: Generic, Secret: secret})
	for _, announced := range []bool{true, false} {
		req := httptest.NewRequest(http.MethodPost, "/hooks/infra", &zeros{left: 1 << 30})
		if req.ContentLength = -1; announced {
			req.ContentLength = 1 << 30
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("announced %v: %d", announced, w.Code)
		}
		if left := req.Body.(*zeros).left; left < 1<<30-MaxBody-(1<<20) {
			t.Errorf("announced %v: %d bytes were read", announced, 1<<30-left)
		}
	}
	big := strings.Repeat(" ", MaxBody-len(push)) + push
	if status, text := h.post("/hooks/infra", big, "X-Signature", "sha256="+mac(big)); status != 202 {
		t.Errorf("a body of the full length: %d %s", status, text)
	}
}

// zeros is a body that counts what is left of it.
type zeros struct{ left int }

func (z *zeros) Read(p []byte) (int, error) { z.left -= len(p); return len(p), nil }
func (z *zeros) Close() error               { return nil }

func TestReplay(t *testing.T) {
	h := newHandler(Hook{Provider: GitHub, Secret: secret})
	send := func(id string) string {
		_, text := h.post("/hooks/infra", push, "X-Hub-Signature-256", "sha256="+mac(push), "X-GitHub-Event", "push", "X-GitHub-Delivery", id)
		h.now = h.now.Add(time.Minute)
		return text
	}
	send("1")
	send("2")
	if text := send("1"); !strings.Contains(text, "heard before") || len(h.woken) != 2 {
		t.Errorf("%q, woken %d times", text, len(h.woken))
	}
	if text := send(strings.Repeat("x", 500)); !strings.Contains(text, "too long") {
		t.Errorf("%q", text)
	}
}

// A flood is answered at once, from one address and from many, and does not
// keep the forge out.
func TestFlood(t *testing.T) {
	h := newHandler(Hook{Provider: Generic, Secret: secret})
	count := map[int]int{}
	send := func(address, signature string) int {
		req := httptest.NewRequest(http.MethodPost, "/hooks/infra", strings.NewReader(push))
		req.RemoteAddr = address
		req.Header.Set("X-Forwarded-For", "10.0.0."+strconv.Itoa(len(count)))
		req.Header.Set("X-Signature", "sha256="+signature)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w.Code
	}
	for range 10_000 {
		count[send("203.0.113.1:1", strings.Repeat("0", 64))]++
	}
	if count[401] != 20 || count[429] != 9980 {
		t.Errorf("from one address: %v", count)
	}
	if n := strings.Count(h.log.String(), "\n"); n > 20 {
		t.Errorf("%d lines of log", n)
	}
	for i := range 3 * maxKeys {
		send(fmt.Sprintf("[2001:db8::%x]:1", i), strings.Repeat("0", 64))
	}
	if n := len(h.clients.now) + len(h.clients.last); n > maxKeys {
		t.Errorf("%d clients are remembered", n)
	}
	if code := send("192.0.2.7:1", mac(push)); code != 202 {
		t.Errorf("the forge is answered %d", code)
	}
	h.now = h.now.Add(time.Second)
	if code := send("203.0.113.1:1", mac(push)); code != 202 {
		t.Errorf("a second later: %d", code)
	}
}

// A body that trickles holds one place, not for long, and no memory.
func TestBodiesAtOnce(t *testing.T) {
	h := newHandler(Hook{Provider: Generic, Secret: secret})
	for range maxBodies {
		h.bodies <- struct{}{}
	}
	if status, text := h.post("/hooks/infra", push, "X-Signature", "sha256="+mac(push)); status != 429 || !strings.Contains(text, "at once") {
		t.Errorf("%d %s", status, text)
	}
	<-h.bodies
	if status, _ := h.post("/hooks/infra", push, "X-Signature", "sha256="+mac(push)); status != 202 {
		t.Errorf("%d", status)
	}
}

func TestStandardKey(t *testing.T) {
	if got := standardKey([]byte("whsec_aGVsbG8=")); string(got) != "hello" {
		t.Errorf("%q", got)
	}
	if got := standardKey([]byte("whsec_!")); string(got) != "whsec_!" {
		t.Errorf("%q", got)
	}
}

func FuzzWebhook(f *testing.F) {
	f.Add("github", "push", "application/json", push)
	f.Add("bitbucket", "repo:push", "", cloud)
	f.Add("gitlab", "Push Hook", "application/x-www-form-urlencoded", "payload=%7b%7d")
	f.Fuzz(func(t *testing.T, provider, name, kind, body string) {
		h := http.Header{"Content-Type": {kind}, "X-Github-Event": {name}, "X-Gitea-Event": {name}, "X-Gitlab-Event": {name}, "X-Event-Key": {name}}
		e, err := parse(Provider(provider), h, []byte(body))
		if err != nil && len(e.refs) > 0 {
			t.Errorf("refs beside %v", err)
		}
		for _, r := range e.refs {
			if !strings.HasPrefix(r, "refs/") && provider != "bitbucket" && r == "" {
				t.Errorf("ref %q", r)
			}
		}
	})
}
