package tokencleaner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func token(ns string, kind corev1.SecretType, expiration string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "t", UID: "t"}, Type: kind}
	if expiration != "" {
		s.Data = map[string][]byte{"expiration": []byte(expiration)}
	}
	return s
}

func expired(s *corev1.Secret, now time.Time) bool {
	text := string(s.Data["expiration"])
	t, err := time.Parse(time.RFC3339, text)
	return text != "" && (err != nil || !now.Before(t))
}

func TestReconcile(t *testing.T) {
	const kind = corev1.SecretTypeBootstrapToken
	for _, tt := range []struct {
		name  string
		token *corev1.Secret
		wait  time.Duration
		gone  bool
	}{
		{"forever", token("kube-system", kind, ""), 0, false},
		{"in an hour", token("kube-system", kind, start.Add(time.Hour).Format(time.RFC3339)), time.Hour, false},
		{"now", token("kube-system", kind, start.Format(time.RFC3339)), 0, true},
		{"unreadable", token("kube-system", kind, "tomorrow"), 0, true},
		{"elsewhere", token("default", kind, start.Format(time.RFC3339)), 0, false},
		{"another Secret", token("kube-system", corev1.SecretTypeOpaque, start.Format(time.RFC3339)), 0, false},
	} {
		f := client.NewFake(tt.token)
		now := start
		c := New(Config{Tools: controller.Tools{Client: f, Cache: f.Cache(), Clock: func() time.Time { return now }}, Expired: expired})
		key := schema.KeyOf(tt.token)
		res, err := c.Reconcile(t.Context(), key)
		if err != nil || res.RequeueAfter != tt.wait {
			t.Errorf("%s: waits %v, %v, want %v", tt.name, res.RequeueAfter, err, tt.wait)
		}
		if _, err := client.Get[*corev1.Secret](t.Context(), f, key); apierrors.IsNotFound(err) != tt.gone {
			t.Errorf("%s: %v", tt.name, err)
		}
		if tt.wait == 0 {
			continue
		}
		now = now.Add(tt.wait)
		if _, err := c.Reconcile(t.Context(), key); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if _, err := client.Get[*corev1.Secret](t.Context(), f, key); !apierrors.IsNotFound(err) {
			t.Errorf("%s: still there at its time: %v", tt.name, err)
		}
	}
}
