package serviceaccounttoken

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

var key = schema.Key{Namespace: "default", Name: "t"}

func secret(annotations map[string]string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "t", UID: "t", Annotations: annotations}, Type: corev1.SecretTypeServiceAccountToken, Data: data}
}

func account(name string, uid types.UID, secrets ...string) *corev1.ServiceAccount {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}}
	for _, s := range secrets {
		sa.Secrets = append(sa.Secrets, corev1.ObjectReference{Name: s})
	}
	return sa
}

func build(f *client.Fake) *Controller {
	return New(Config{Tools: controllertest.Tools(f), CA: []byte("ca"), Token: func(sa *corev1.ServiceAccount, secret string) (string, error) {
		return sa.Name + " " + secret, nil
	}})
}

func TestReconcile(t *testing.T) {
	of := func(name string) map[string]string { return map[string]string{corev1.ServiceAccountNameKey: name} }
	withUID := func(uid string) map[string]string {
		return map[string]string{corev1.ServiceAccountNameKey: "robot", corev1.ServiceAccountUIDKey: uid}
	}
	full := map[string][]byte{"token": []byte("kept"), "ca.crt": []byte("ca"), "namespace": []byte("default")}
	for _, tt := range []struct {
		name   string
		secret *corev1.Secret
		token  string // "" is gone
		writes int
	}{
		{"empty", secret(of("robot"), nil), "robot t", 1},
		{"complete", secret(withUID("r"), full), "kept", 0},
		{"another CA", secret(withUID("r"), map[string][]byte{"token": []byte("kept"), "ca.crt": []byte("old"), "namespace": []byte("default")}), "kept", 1},
		{"account is gone", secret(of("nobody"), full), "", 1},
		{"account is another now", secret(withUID("before"), full), "", 1},
	} {
		f := client.NewFake(tt.secret, account("robot", "r"))
		before := f.Writes()
		if _, err := build(f).Reconcile(t.Context(), key); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if n := f.Writes() - before; n != tt.writes {
			t.Errorf("%s: %d writes, want %d", tt.name, n, tt.writes)
		}
		got, err := client.Get[*corev1.Secret](t.Context(), f, key)
		if apierrors.IsNotFound(err) != (tt.token == "") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err == nil && (string(got.Data["token"]) != tt.token || string(got.Data["ca.crt"]) != "ca" || string(got.Data["namespace"]) != "default" || got.Annotations[corev1.ServiceAccountUIDKey] != "r") {
			t.Errorf("%s: %v %s", tt.name, got.Annotations, got.Data)
		}
	}
}

// Secrets of other types, and of no account, are not ours.
func TestOthersAreLeftAlone(t *testing.T) {
	opaque := secret(map[string]string{corev1.ServiceAccountNameKey: "nobody"}, nil)
	opaque.Type = corev1.SecretTypeOpaque
	for _, s := range []*corev1.Secret{opaque, secret(nil, nil)} {
		f := client.NewFake(s)
		before := f.Writes()
		if _, err := build(f).Reconcile(t.Context(), key); err != nil || f.Writes() != before {
			t.Errorf("%s: %d writes, %v", s.Type, f.Writes()-before, err)
		}
		if got := build(f).Watches()[0].Map(client.Event{Type: client.Added, Object: s}); len(got) != 0 {
			t.Errorf("%s wakes %v", s.Type, got)
		}
	}
}

// stale is a cache that does not know accounts yet.
type stale struct{ client.Cache }

func (s stale) Get(r *schema.Resource, key schema.Key) (schema.Object, bool) {
	if r == schema.ResourceFor[*corev1.ServiceAccount]() {
		return nil, false
	}
	return s.Cache.Get(r, key)
}

func TestAsksTheServerForAnAccount(t *testing.T) {
	f := client.NewFake(secret(map[string]string{corev1.ServiceAccountNameKey: "robot"}, nil), account("robot", "r"))
	c := build(f)
	c.cfg.Cache = stale{f.Cache()}
	if _, err := c.Reconcile(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get[*corev1.Secret](t.Context(), f, key); err != nil || string(got.Data["token"]) != "robot t" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestReferenceIsTakenBack(t *testing.T) {
	f := client.NewFake(account("robot", "r", "other", "t"), account("another", "a", "other"))
	if _, err := build(f).Reconcile(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"robot", "another"} {
		sa, err := client.Get[*corev1.ServiceAccount](t.Context(), f, schema.Key{Namespace: "default", Name: name})
		if err != nil || len(sa.Secrets) != 1 || sa.Secrets[0].Name != "other" {
			t.Errorf("%s: %v, %v", name, sa.Secrets, err)
		}
	}
}

func TestEventsOfAccounts(t *testing.T) {
	f := client.NewFake(secret(map[string]string{corev1.ServiceAccountNameKey: "robot"}, nil))
	wake := build(f).Watches()[1].Map
	for _, tt := range []struct {
		ev   client.Event
		want int
	}{
		{client.Event{Type: client.Deleted, Object: account("robot", "r")}, 1},
		{client.Event{Type: client.Deleted, Object: account("another", "r")}, 0},
		{client.Event{Type: client.Modified, Object: account("robot", "new"), Old: account("robot", "r")}, 1},
		{client.Event{Type: client.Modified, Object: account("robot", "r"), Old: account("robot", "r")}, 0},
	} {
		if got := wake(tt.ev); len(got) != tt.want {
			t.Errorf("%s of %s wakes %v", tt.ev.Type, tt.ev.Object.GetName(), got)
		}
	}
}

func TestErrors(t *testing.T) {
	f := client.NewFake(secret(map[string]string{corev1.ServiceAccountNameKey: "robot"}, nil), account("robot", "r"))
	c := build(f)
	c.cfg.Token = func(*corev1.ServiceAccount, string) (string, error) { return "", errors.New("no key") }
	if _, err := c.Reconcile(t.Context(), key); err == nil {
		t.Error("an error of the issuer was lost")
	}
	c = build(f)
	f.Reject(func(client.Verb, *schema.Resource, string, schema.Object) error { return errors.New("full") })
	if _, err := c.Reconcile(t.Context(), key); err == nil {
		t.Error("a refused write was lost")
	}
}
