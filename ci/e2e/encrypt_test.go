//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServersEncrypt: several servers of a version that stored in plain encrypt by
// one command, which refuses while one of them is away; nothing is lost meanwhile,
// each reads all, also after a restart, and one that joins later.
func TestServersEncrypt(t *testing.T) {
	m := newMachines(t, "s1", "s2", "s3", "s4")
	plain := []string{"--encryption-provider-config", "none"}
	m.server("s1", plain...)
	m.server("s2", append(m.token("server"), plain...)...)
	m.settled("s1", 2)
	m.server("s3", append(m.token("server"), plain...)...)
	m.settled("s1", 3)
	const hidden = "this-is-not-to-be-found-in-a-backup"
	// A Secret of that text, in base64.
	if code, text, err := do(m.client("s1"), http.MethodPost, "/api/v1/namespaces/default/secrets",
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"old"},"stringData":{"k":"`+hidden+`"}}`); err != nil || code != http.StatusCreated {
		t.Fatal(code, text, err)
	}
	for _, name := range []string{"s1", "s2", "s3"} { // the version after
		m.all[name].stop(name, syscall.SIGTERM)
		m.server(name)
		m.settled("s1", 3)
	}
	encrypt := func(at string) (string, error) {
		return m.all[at].run(m.bin("writ"), "member", "encrypt", "--data-dir", m.all[at].data)
	}
	saved := func() string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "saved.db")
		m.must(m.bin("writ"), "backup", "save", file, "--data-dir", m.data)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if !strings.Contains(saved(), hidden) {
		t.Fatal("the servers encrypt already: this test shows nothing")
	}
	m.all["s3"].stop("s3", syscall.SIGKILL)
	m.eventually(30*time.Second, "a server that is away is in the way", func() error {
		if out, err := encrypt("s2"); err == nil || !strings.Contains(out, "s3 does not answer") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	m.server("s3")
	m.settled("s1", 3)
	w := m.writes(t.Context(), "s1", "s2", "s3")
	m.eventually(30*time.Second, "the servers encrypt", func() error {
		out, err := encrypt("s2")
		t.Log(out)
		return err
	})
	// What was written before stays in the history until that is compacted; the
	// leader says when all that is live was stored anew.
	m.eventually(30*time.Second, "what was in plain is stored anew", func() error {
		_, leader, err := m.servers("s1")
		if err != nil {
			return err
		}
		_, text, err := do(m.client(leader), http.MethodGet, "/metrics", "")
		if err != nil || !strings.Contains(text, "writ_store_stale_values 0\n") || strings.Contains(text, "writ_store_resealed_total 0\n") {
			return fmt.Errorf("%s has not stored it anew: %w", leader, err)
		}
		return nil
	})
	if !strings.Contains(saved(), "k8s:enc:secretbox:v1:own:") {
		t.Error("nothing is encrypted in a backup")
	}
	if out, err := encrypt("s1"); err != nil || !strings.Contains(out, "encrypt already") {
		t.Errorf("again: %v %s", err, out)
	}
	read := func(at string) {
		t.Helper()
		m.eventually(30*time.Second, at+" reads the Secret", func() error {
			code, text, err := do(m.client(at), http.MethodGet, "/api/v1/namespaces/default/secrets/old", "")
			if err != nil || code != http.StatusOK || !strings.Contains(text, "dGhpcy1pcy1ub3QtdG8tYmUtZm91bmQtaW4tYS1iYWNrdXA=") {
				return fmt.Errorf("%d %s %w", code, text, err)
			}
			return nil
		})
	}
	for _, at := range []string{"s1", "s2", "s3"} {
		m.all[at].stop(at, syscall.SIGKILL)
		m.server(at)
		read(at)
	}
	m.settled("s1", 3)
	m.server("s4", m.token("server")...)
	m.settled("s1", 4)
	read("s4")
	m.kept(w, "s1")
}
