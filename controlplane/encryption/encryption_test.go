package encryption

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secretKey = "/registry/secrets/default/token"

var plain = []byte("k8s\x00 a secret")

func key(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) }

func keyed(provider string, keys ...string) string {
	out := "  - " + provider + ":\n      keys:\n"
	for _, k := range keys {
		name, secret, _ := strings.Cut(k, "=")
		out += fmt.Sprintf("      - {name: %s, secret: %q}\n", name, secret)
	}
	return out
}

// configFile writes a configuration for secrets with the given providers.
func configFile(t *testing.T, path, providers string) string {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "encryption.yaml")
	}
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets, configmaps.example.com]\n  providers:\n" + providers
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, providers string) *Encryption {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	e, err := Open(ctx, Config{File: configFile(t, "", providers)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestProviders(t *testing.T) {
	for _, tt := range []struct{ name, providers, prefix string }{
		{"aescbc", keyed("aescbc", "k1="+key(1)), "k8s:enc:aescbc:v1:k1:"},
		{"aesgcm", keyed("aesgcm", "k1="+key(1)), "k8s:enc:aesgcm:v1:k1:"},
		{"secretbox", keyed("secretbox", "k1="+key(1)), "k8s:enc:secretbox:v1:k1:"},
		{"identity", "  - identity: {}\n", "k8s\x00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, ctx := open(t, tt.providers), t.Context()
			stored, err := e.ToStorage(ctx, "secrets", secretKey, plain)
			if err != nil || !bytes.HasPrefix(stored, []byte(tt.prefix)) {
				t.Fatalf("stored %q, %v", stored, err)
			}
			if tt.name != "identity" && bytes.Contains(stored, []byte("a secret")) {
				t.Error("the value is on disk in the clear")
			}
			got, stale, err := e.FromStorage(ctx, "secrets", secretKey, stored)
			if err != nil || stale || !bytes.Equal(got, plain) {
				t.Errorf("read %q, stale %v, %v", got, stale, err)
			}
			// What is not configured stays as it is.
			if got, err := e.ToStorage(ctx, "configmaps", "/registry/configmaps/a/b", plain); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("a ConfigMap is stored as %q, %v", got, err)
			}
			if tt.name == "identity" {
				return
			}
			if got, err := e.ToStorage(ctx, "configmaps.example.com", "/registry/example.com/configmaps/a/b", plain); err != nil || bytes.Equal(got, plain) {
				t.Errorf("a custom resource that is configured is stored as %q, %v", got, err)
			}
			// An encrypted value under a resource without encryption is no object.
			if _, _, err := e.FromStorage(ctx, "configmaps", "/registry/configmaps/a/b", stored); err == nil {
				t.Error("an encrypted value was read as a plain one")
			}
		})
	}
}

func TestTamper(t *testing.T) {
	for _, provider := range []string{"aesgcm", "secretbox"} {
		e, ctx := open(t, keyed(provider, "k1="+key(1))+"  - identity: {}\n"), t.Context()
		stored, err := e.ToStorage(ctx, "secrets", secretKey, plain)
		if err != nil {
			t.Fatal(err)
		}
		for i := range stored {
			bad := slices.Clone(stored)
			bad[i] ^= 0x10
			if got, _, err := e.FromStorage(ctx, "secrets", secretKey, bad); err == nil && bytes.HasPrefix(bad, []byte("k8s:enc:")) {
				t.Fatalf("%s: byte %d changed, read %q", provider, i, got)
			} else if err == nil && bytes.Equal(got, plain) {
				t.Fatalf("%s: byte %d changed and nobody noticed", provider, i)
			}
			if got, _, err := e.FromStorage(ctx, "secrets", secretKey, stored[:i]); err == nil && bytes.Equal(got, plain) {
				t.Fatalf("%s: cut at %d and nobody noticed", provider, i)
			}
		}
		// secretbox authenticates no path, upstream neither.
		if _, _, err := e.FromStorage(ctx, "secrets", "/registry/secrets/default/other", stored); err == nil && provider == "aesgcm" {
			t.Error("a value that was moved to another key was read")
		}
	}
}

func TestRotation(t *testing.T) {
	ctx := t.Context()
	old := open(t, keyed("aesgcm", "k1="+key(1)))
	stored, err := old.ToStorage(ctx, "secrets", secretKey, plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, providers := range []string{
		keyed("aesgcm", "k2="+key(2), "k1="+key(1)),
		keyed("secretbox", "k2="+key(2)) + keyed("aesgcm", "k1="+key(1)),
		"  - identity: {}\n" + keyed("aesgcm", "k1="+key(1)),
	} {
		e := open(t, providers)
		got, stale, err := e.FromStorage(ctx, "secrets", secretKey, stored)
		if err != nil || !stale || !bytes.Equal(got, plain) {
			t.Fatalf("read %q, stale %v, %v", got, stale, err)
		}
		fresh, err := e.ToStorage(ctx, "secrets", secretKey, got)
		if err != nil {
			t.Fatal(err)
		}
		if _, stale, err := e.FromStorage(ctx, "secrets", secretKey, fresh); err != nil || stale {
			t.Errorf("stale after the rewrite: %v, %v", stale, err)
		}
		lost := []byte("k8s:enc:aesgcm:v1:gone:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")
		if _, _, err := e.FromStorage(ctx, "secrets", secretKey, lost); err == nil || !strings.Contains(err.Error(), `"gone"`) {
			t.Errorf("the key that is missing is not named: %v", err)
		}
	}
	// The old key is gone too early.
	if _, _, err := open(t, keyed("aesgcm", "k2="+key(2))).FromStorage(ctx, "secrets", secretKey, stored); err == nil {
		t.Error("read without the key")
	}
}

func TestReload(t *testing.T) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	defer cancel()
	path := configFile(t, "", "  - identity: {}\n")
	e, err := Open(ctx, Config{File: path})
	if err != nil {
		t.Fatal(err)
	}
	written := func() string {
		t.Helper()
		stored, err := e.ToStorage(ctx, "secrets", secretKey, plain)
		if err != nil {
			t.Fatal(err)
		}
		return string(stored)
	}
	if written() != string(plain) {
		t.Error("encrypted by identity")
	}
	if err := e.Reload(ctx); err != nil {
		t.Error(err)
	}
	configFile(t, path, keyed("aesgcm", "k1="+key(1))+"  - identity: {}\n")
	if err := e.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(written(), "k8s:enc:aesgcm:v1:k1:") {
		t.Error("the new file is not used")
	}
	configFile(t, path, keyed("aesgcm", "k1=tooshort"))
	if err := e.Reload(ctx); err == nil {
		t.Error("a wrong file was taken over")
	}
	if !strings.HasPrefix(written(), "k8s:enc:aesgcm:v1:k1:") {
		t.Error("a wrong file changed something")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := e.Reload(ctx); !errors.Is(err, os.ErrNotExist) && err == nil {
		t.Errorf("got %v", err)
	}
}

func TestRefusedFiles(t *testing.T) {
	for _, providers := range []string{
		"", "  - {}\n", "  - rot13: {}\n",
		keyed("aesgcm", "k1=not base64"), keyed("aesgcm"), keyed("secretbox", "k1=AAAA"),
		"  - kms: {apiVersion: v2, name: a, endpoint: tcp://127.0.0.1:1, timeout: 1s}\n",
		"  - kms: {apiVersion: v1, name: a, endpoint: unix:///tmp/none.sock, timeout: 1s}\n",
	} {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		path := configFile(t, "", providers)
		if _, err := Open(ctx, Config{File: path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", providers, err)
		}
		cancel()
	}
}

func kmsProvider(f *fakeKMS) string {
	return fmt.Sprintf("  - kms: {apiVersion: v2, name: vault, endpoint: %q, timeout: 1s}\n", f.Endpoint)
}

func TestKMS(t *testing.T) {
	f := startKMS(t, "key-1")
	e, ctx := open(t, kmsProvider(f)+"  - identity: {}\n"), t.Context()
	if err := e.Check(ctx); err != nil {
		t.Fatal(err)
	}
	stored := map[string][]byte{}
	for i := range 50 {
		k := fmt.Sprintf("/registry/secrets/default/s%d", i)
		v, err := e.ToStorage(ctx, "secrets", k, plain)
		if err != nil || !bytes.HasPrefix(v, []byte("k8s:enc:kms:v2:vault:")) {
			t.Fatalf("stored %q, %v", v, err)
		}
		stored[k] = v
	}
	for k, v := range stored {
		if got, stale, err := e.FromStorage(ctx, "secrets", k, v); err != nil || stale || !bytes.Equal(got, plain) {
			t.Fatalf("read %q, stale %v, %v", got, stale, err)
		}
		if _, _, err := e.FromStorage(ctx, "secrets", k+"x", v); err == nil {
			t.Fatal("a value that was moved was read")
		}
	}
	if enc, dec := f.counts(); enc > 3 || dec > 3 {
		t.Errorf("the plugin was asked %d and %d times for one key", enc, dec)
	}

	// Another server asks the plugin for the seed once.
	second := open(t, kmsProvider(f))
	for k, v := range stored {
		if got, _, err := second.FromStorage(ctx, "secrets", k, v); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("read %q, %v", got, err)
		}
	}
	if _, dec := f.counts(); dec > 6 {
		t.Errorf("the plugin decrypted %d times", dec)
	}

	// The plugin rotates: what it wrote before is stale for a server that knows.
	f.rotate(t, "key-2")
	third := open(t, kmsProvider(f))
	if err := third.Check(ctx); err != nil {
		t.Fatal(err)
	}
	for k, v := range stored {
		if got, stale, err := third.FromStorage(ctx, "secrets", k, v); err != nil || !stale || !bytes.Equal(got, plain) {
			t.Fatalf("after rotation: read %q, stale %v, %v", got, stale, err)
		}
	}

	// It goes down: keys that are known work on, and the check says it.
	f.set(func() { f.down = true })
	fourth := open(t, kmsProvider(f))
	if err := fourth.Check(ctx); err == nil || !strings.Contains(err.Error(), "kms-provider") {
		t.Errorf("the check says %v", err)
	}
	if _, err := fourth.ToStorage(ctx, "secrets", secretKey, plain); err == nil {
		t.Error("written without a key")
	}
	if got, _, err := third.FromStorage(ctx, "secrets", "/registry/secrets/default/s1", stored["/registry/secrets/default/s1"]); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("read %q, %v", got, err)
	}
}

func FuzzFromStorage(f *testing.F) {
	path := filepath.Join(f.TempDir(), "encryption.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n" +
		keyed("aesgcm", "k1="+key(1)) + keyed("aescbc", "k1="+key(1)) + keyed("secretbox", "k1="+key(1)) + "  - identity: {}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	e, err := Open(context.Background(), Config{File: path})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "k8s:enc:", "k8s:enc:aesgcm:v1:k1:", "k8s:enc:aescbc:v1:k1:0123456789abcdef", "k8s:enc:secretbox:v1:k1:x", "k8s\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, _, err := e.FromStorage(t.Context(), "secrets", secretKey, data)
		if err == nil && bytes.HasPrefix(data, []byte("k8s:enc:")) && !bytes.HasPrefix(data, []byte("k8s:enc:aescbc:")) {
			t.Errorf("forged: %q is %q", data, got)
		}
	})
}
