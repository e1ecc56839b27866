package token

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// withLegacy returns a fixture with a Secret that holds a token.
func withLegacy(t *testing.T) (*fixture, string) {
	t.Helper()
	f := newFixture(t, account)
	f.cfg.Labels = f.fake
	text, err := f.Legacy(account, "web-token")
	if err != nil {
		t.Fatal(err)
	}
	f.fake.Put(&corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-token", UID: "legacy-uid"},
		Type: corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{corev1.ServiceAccountTokenKey: []byte(text)},
	})
	return f, text
}

func (f *fixture) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	s, err := client.Get[*corev1.Secret](t.Context(), f.fake, schema.Key{Namespace: "shop", Name: "web-token"})
	if err != nil {
		t.Fatal(err)
	}
	return s.DeepCopyObject().(*corev1.Secret)
}

func TestLegacy(t *testing.T) {
	f, text := withLegacy(t)
	for range 3 {
		u, audiences, err := f.Authenticate(text, nil)
		if err != nil || u.GetName() != "system:serviceaccount:shop:web" || u.GetUID() != "sa-uid" || len(audiences) != 1 {
			t.Fatalf("got %v, %v, %v", u, audiences, err)
		}
	}
	today := f.clock.now.UTC().Format(time.DateOnly)
	if got := f.secret(t).Labels[LastUsedLabel]; got != today {
		t.Errorf("last used %q, want %q", got, today)
	}
	before := f.fake.Writes()
	if _, _, err := f.Authenticate(text, nil); err != nil || f.fake.Writes() != before {
		t.Errorf("written again on one day (%v)", err)
	}
	f.clock.now = f.clock.now.Add(48 * time.Hour)
	if _, _, err := f.Authenticate(text, nil); err != nil || f.fake.Writes() != before+1 {
		t.Errorf("not written two days later (%v)", err)
	}
	if _, _, err := f.Authenticate(text, []string{"vault"}); err == nil {
		t.Error("a legacy token is for the API server alone")
	}
}

func TestLegacyDies(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(*testing.T, *fixture)
	}{
		{"secret gone", "Token has been invalidated", func(t *testing.T, f *fixture) {
			if err := client.Delete[*corev1.Secret](context.Background(), f.fake, schema.KeyOf(f.secret(t)), client.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
		{"secret made again with another token", "Token does not match server's copy", func(t *testing.T, f *fixture) {
			s := f.secret(t)
			s.Data[corev1.ServiceAccountTokenKey] = []byte("other")
			f.fake.Put(s)
		}},
		{"account made again", "ServiceAccount UID (new) does not match claim (sa-uid)", func(_ *testing.T, f *fixture) {
			again := account.DeepCopy()
			again.UID = "new"
			f.fake.Put(again)
		}},
		{"marked invalid", "has been marked invalid. Use tokens from the TokenRequest API", func(t *testing.T, f *fixture) {
			s := f.secret(t)
			s.Labels = map[string]string{InvalidSinceLabel: "2026-01-01"}
			f.fake.Put(s)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, text := withLegacy(t)
			tt.change(t, f)
			if u, _, err := f.Authenticate(text, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v", u, err)
			}
		})
	}
}

// TestLegacyForged: neither another key nor changed claims pass.
func TestLegacyForged(t *testing.T) {
	f, text := withLegacy(t)
	other := newFixture(t, account)
	forged, err := other.Legacy(account, "web-token")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{forged, text[:len(text)-3] + "AAA", strings.Replace(text, ".", ".A", 1)} {
		if u, _, err := f.Authenticate(bad, nil); err == nil {
			t.Errorf("%s is %v", bad, u)
		}
	}
}

func FuzzAuthenticateLegacy(f *testing.F) {
	fix := newFixture(f, account)
	legacy, err := fix.Legacy(account, "web-token")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "a.b.c", legacy, "eyJhbGciOiJub25lIn0.eyJpc3MiOiJrdWJlcm5ldGVzL3NlcnZpY2VhY2NvdW50In0.", strings.Repeat("A", maxToken+1)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if u, _, err := fix.Authenticate(text, nil); err == nil {
			t.Errorf("%q is %v", text, u) // no Secret holds any
		}
	})
}
