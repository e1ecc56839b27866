package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// TestAuditByDefault: without a flag the log says who wrote, pushed, fetched,
// signed in and failed to, and no secret is in it.
func TestAuditByDefault(t *testing.T) {
	s := startGit(t)
	first := s.commit(s.clone, "a.yaml", configMap("a", "1"))
	s.accepted(as("t1")...)
	s.commit(s.clone, "bad.yaml", "kind: Nothing\n")
	s.refused("bad.yaml", as("t1")...)
	fetch := as("t1")
	s.git(s.clone, append(fetch[:2:2], "fetch", "-q", "--refetch", "origin", "main")...)
	if out, err := s.tryGit(s.clone, append(as("wrong")[:2:2], "ls-remote", "origin")...); err == nil {
		t.Errorf("a wrong token lists refs: %s", out)
	}

	ask := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the test's own server
	t.Cleanup(ask.CloseIdleConnections)
	call := func(method, path, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, "https://"+s.cfg.Listen+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer t1")
		r.Header.Set("Content-Type", "application/json")
		resp, err := ask.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	call("GET", "/ui/?access_token=hush-in-address", "")
	call("POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"s"},"stringData":{"k":"hush-in-body"}}`)

	path := s.cfg.file("audit.log")
	want := map[string]func(e *auditv1.Event) bool{
		"an accepted push": func(e *auditv1.Event) bool {
			return e.User.Username == "pusher" && e.Annotations["git.writ.dev/refs/heads/main"] == strings.Repeat("0", 40)+".."+first+" accepted"
		},
		"a refused push": func(e *auditv1.Event) bool {
			a := e.Annotations["git.writ.dev/refs/heads/main"]
			return strings.HasPrefix(a, first+"..") && strings.Contains(a, " refused: ")
		},
		"a fetch": func(e *auditv1.Event) bool {
			return e.User.Username == "pusher" && e.Annotations["git.writ.dev/want-0"] == first
		},
		"a wrong password": func(e *auditv1.Event) bool {
			return strings.HasPrefix(e.RequestURI, "/git/") && e.ResponseStatus != nil && e.ResponseStatus.Code == 401
		},
		"a page": func(e *auditv1.Event) bool {
			return e.User.Username == "pusher" && e.RequestURI == "/ui/?access_token=redacted"
		},
		"a secret": func(e *auditv1.Event) bool {
			return e.Verb == "create" && e.ObjectRef != nil && e.ObjectRef.Resource == "secrets" && e.Level == auditv1.LevelMetadata
		},
	}
	s.soon("all is in the log", func() bool {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			e := &auditv1.Event{}
			if json.Unmarshal(line, e) != nil {
				continue // being written
			}
			for what, is := range want {
				if is(e) {
					delete(want, what)
				}
			}
		}
		return len(want) == 0
	})
	data, err := os.ReadFile(path)
	if err != nil || bytes.Contains(data, []byte("hush")) || bytes.Contains(data, []byte("wrong")) {
		t.Errorf("a secret is in the log, or %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the log: %v, %v", info.Mode(), err)
	}
}
