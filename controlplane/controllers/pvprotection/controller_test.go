package pvprotection

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

func TestReconcile(t *testing.T) {
	gone := ptr.To(metav1.Now())
	for _, tt := range []struct {
		name       string
		deleted    *metav1.Time
		phase      corev1.PersistentVolumePhase
		finalizers []string
		want       []string // nil: it is gone
	}{
		{"lives", nil, corev1.VolumeAvailable, []string{Finalizer}, []string{Finalizer}},
		{"made without", nil, corev1.VolumeBound, nil, []string{Finalizer}},
		{"unbound", gone, corev1.VolumeAvailable, []string{Finalizer}, nil},
		{"released", gone, corev1.VolumeReleased, []string{Finalizer}, nil},
		{"never looked at", gone, "", []string{Finalizer}, nil},
		{"bound", gone, corev1.VolumeBound, []string{Finalizer}, []string{Finalizer}},
		{"held by others too", gone, corev1.VolumeFailed, []string{"a/b", Finalizer}, []string{"a/b"}},
		{"held by others only", gone, corev1.VolumeFailed, []string{"a/b"}, []string{"a/b"}},
	} {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", DeletionTimestamp: tt.deleted, Finalizers: tt.finalizers}}
		v.Status.Phase = tt.phase
		f := client.NewFake(v)
		if _, err := New(controllertest.Tools(f)).Reconcile(t.Context(), schema.Key{Name: "v"}); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		got, err := client.Get[*corev1.PersistentVolume](t.Context(), f, schema.Key{Name: "v"})
		if apierrors.IsNotFound(err) != (tt.want == nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err == nil && !slices.Equal(got.Finalizers, tt.want) {
			t.Errorf("%s: finalizers %v, want %v", tt.name, got.Finalizers, tt.want)
		}
	}
}
