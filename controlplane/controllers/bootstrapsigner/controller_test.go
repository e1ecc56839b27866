package bootstrapsigner

import (
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

func clusterInfo(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}, Data: data}
}

func token(ns, name string, kind corev1.SecretType) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Type: kind}
}

const kind = corev1.SecretTypeBootstrapToken

// sign signs by the name of a token.
func sign(info *corev1.ConfigMap, tokens []*corev1.Secret, _ time.Time) (*corev1.ConfigMap, bool, error) {
	next := info.DeepCopy()
	next.Data = map[string]string{"kubeconfig": info.Data["kubeconfig"]}
	for _, s := range tokens {
		next.Data["jws-kubeconfig-"+s.Name] = "by " + s.Name
	}
	return next, !maps.Equal(next.Data, info.Data), nil
}

func TestReconcile(t *testing.T) {
	f := client.NewFake(clusterInfo(map[string]string{"kubeconfig": "k", "jws-kubeconfig-old": "by old"}),
		token("kube-system", "a", kind), token("default", "b", kind), token("kube-system", "c", corev1.SecretTypeOpaque))
	c := New(Config{Tools: controllertest.Tools(f), Signed: sign})
	for range 2 {
		if _, err := c.Reconcile(t.Context(), info); err != nil {
			t.Fatal(err)
		}
	}
	got, err := client.Get[*corev1.ConfigMap](t.Context(), f, info)
	if err != nil || !maps.Equal(got.Data, map[string]string{"kubeconfig": "k", "jws-kubeconfig-a": "by a"}) {
		t.Errorf("%v, %v", got.Data, err)
	}
	if f.Writes() != 5 {
		t.Errorf("%d writes, want 4 of the test and one", f.Writes())
	}
}

func TestNothingToSign(t *testing.T) {
	must := func(*corev1.ConfigMap, []*corev1.Secret, time.Time) (*corev1.ConfigMap, bool, error) {
		return nil, false, errors.New("asked")
	}
	for _, objects := range [][]schema.Object{nil, {clusterInfo(nil)}} {
		f := client.NewFake(objects...)
		if _, err := New(Config{Tools: controllertest.Tools(f), Signed: must}).Reconcile(t.Context(), info); err != nil {
			t.Error(err)
		}
	}
	f := client.NewFake(clusterInfo(map[string]string{"kubeconfig": "k"}))
	if _, err := New(Config{Tools: controllertest.Tools(f), Signed: must}).Reconcile(t.Context(), info); err == nil {
		t.Error("an error of the signer was lost")
	}
}

func TestEvents(t *testing.T) {
	w := New(Config{}).Watches()
	other := clusterInfo(nil)
	other.Name = "other"
	for _, tt := range []struct {
		watch int
		ev    client.Event
		want  int
	}{
		{0, client.Event{Type: client.Added, Object: clusterInfo(nil)}, 1},
		{0, client.Event{Type: client.Deleted, Object: clusterInfo(nil)}, 0},
		{0, client.Event{Type: client.Added, Object: other}, 0},
		{1, client.Event{Type: client.Deleted, Object: token("kube-system", "a", kind)}, 1},
		{1, client.Event{Type: client.Added, Object: token("default", "a", kind)}, 0},
		{1, client.Event{Type: client.Added, Object: token("kube-system", "a", corev1.SecretTypeTLS)}, 0},
	} {
		if got := w[tt.watch].Map(tt.ev); len(got) != tt.want {
			t.Errorf("%s %s/%s wakes %v", tt.ev.Type, tt.ev.Object.GetNamespace(), tt.ev.Object.GetName(), got)
		}
	}
}
