package oidc

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// record is a log that several goroutines write.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

// take empties the record.
func (r *record) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.text.Reset()
	return r.text.String()
}

func (i *issuer) config(audience, more string) string {
	i.Helper()
	ca, err := os.ReadFile(i.ca)
	if err != nil {
		i.Fatal(err)
	}
	return fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
%sjwt:
- issuer: {url: %q, audiences: [%s], certificateAuthority: %q}
  claimMappings: {username: {claim: sub, prefix: ""}}
`, more, i.url, audience, ca)
}

// TestReload replaces the configuration under a running server: what is good
// takes over without a moment in which nobody is known, what is not leaves all
// as it was.
func TestReload(t *testing.T) {
	first, second := newIssuer(t, false), newIssuer(t, false)
	path := filepath.Join(t.TempDir(), "authentication.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first.config("writ", ""))
	log := &record{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	defer cancel()
	a, err := Open(ctx, Config{File: path, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ready(t, a)
	knows := func(i *issuer) bool {
		t.Helper()
		_, ok, _ := a.AuthenticateToken(ctx, i.token(i.key, nil)) //nolint:errcheck // ok says it
		return ok
	}
	for _, tt := range []struct {
		text, said    string
		first, second bool
	}{
		{first.config("other", ""), "file reloaded", false, false},
		{first.config("writ", ""), "file reloaded", true, false},
		{"jwt: [", "yaml", true, false},
		{second.config("writ", "anonymous: {enabled: true}\n"), "changed from initial configuration file", true, false},
		{strings.Replace(second.config("writ", ""), "https:", "http:", 1), "must be https", true, false},
		{second.config("writ", ""), "file reloaded", false, true},
	} {
		write(tt.text)
		a.files.Check(ctx)
		if said := log.take(); !strings.Contains(said, tt.said) {
			t.Errorf("%s\nsaid %q, want %q", tt.text, said, tt.said)
		}
		if one, two := knows(first), knows(second); one != tt.first || two != tt.second {
			t.Errorf("%s\nfirst %v, second %v", tt.text, one, two)
		}
	}
}

// TestReloadCA: the issuer's server has a new CA, and the flag names a file
// that does so too.
func TestReloadCA(t *testing.T) {
	i := newIssuer(t, false)
	good, err := os.ReadFile(i.ca)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(i.ca, append([]byte("# before\n"), good...), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &record{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	defer cancel()
	a, err := Open(ctx, Config{Flags: &Flags{IssuerURL: i.url, ClientID: "writ", CAFile: i.ca, SigningAlgs: []string{"ES256"}},
		Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ready(t, a)
	before := a.now.Load()
	if err := os.WriteFile(i.ca, good, 0o600); err != nil {
		t.Fatal(err)
	}
	a.files.Check(ctx)
	if a.now.Load() == before || !strings.Contains(log.take(), "what=oidc_ca") {
		t.Error("the new CA is not taken over")
	}
	if err := os.WriteFile(i.ca, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.files.Check(ctx)
	if said := log.take(); !strings.Contains(said, "is empty") {
		t.Errorf("of an empty file: %q", said)
	}
	if _, ok, err := a.AuthenticateToken(ctx, i.token(i.key, nil)); !ok {
		t.Errorf("a token is refused: %v", err)
	}
}
