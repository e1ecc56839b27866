package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func TestNow(t *testing.T) {
	if since := time.Since(Tools{}.Now()); since < 0 || since > time.Minute {
		t.Errorf("without a clock it is %s ago", since)
	}
	at := time.Unix(7, 0)
	if got := (Tools{Clock: func() time.Time { return at }}).Now(); got != at {
		t.Errorf("%s", got)
	}
}

// TestDeleteSeen: only what was seen goes, not what took its name since.
func TestDeleteSeen(t *testing.T) {
	seen := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "1"}}
	newer := seen.DeepCopy()
	newer.UID = "2"
	for _, c := range []struct {
		name string
		is   []schema.Object
		left int
	}{{"is there", []schema.Object{seen}, 0}, {"is gone", nil, 0}, {"is another's", []schema.Object{newer}, 1}} {
		f := client.NewFake(c.is...)
		if err := DeleteSeen(t.Context(), f, seen); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if left := client.CachedList[*corev1.ConfigMap](f.Cache(), ""); len(left) != c.left {
			t.Errorf("%s: %d left", c.name, len(left))
		}
	}
}
