package history

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func template(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
}

// A template that comes back is the revision that it was, with the highest
// number; a revision gives back its template.
func TestRevisions(t *testing.T) {
	owner := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db", UID: "u"}}
	f := client.NewFake()
	sync := func(image string) *appsv1.ControllerRevision {
		t.Helper()
		r, err := Sync(t.Context(), f, Of(f.Cache(), owner), owner, template(image))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a := sync("v1")
	if again := sync("v1"); again.ResourceVersion != a.ResourceVersion {
		t.Error("a revision that is current was written again")
	}
	b := sync("v2")
	back := sync("v1")
	if a.Revision != 1 || b.Revision != 2 || back.Revision != 3 || back.Name != a.Name || a.Name == b.Name {
		t.Errorf("revisions %s %d, %s %d, %s %d", a.Name, a.Revision, b.Name, b.Revision, back.Name, back.Revision)
	}
	got, err := Template(b)
	if err != nil || got.Spec.Containers[0].Image != "v2" || got.Labels["app"] != "db" || Hash(b) == "" || Hash(b) == Hash(a) {
		t.Errorf("template of %s: %+v %v", b.Name, got, err)
	}

	// The cache that shows nothing finds its own revision by the name.
	lagging, err := Sync(t.Context(), f, nil, owner, template("v2"))
	if err != nil || lagging.Name != b.Name {
		t.Errorf("over a cache that lags: %v", err)
	}
	other := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db", UID: "made-anew"}}
	if _, err := Sync(t.Context(), f, nil, other, template("v2")); err == nil {
		t.Error("took the revision of another owner")
	}

	sync("v3")
	limit := int32(1)
	if err := Trim(t.Context(), f, Of(f.Cache(), owner), map[string]bool{Hash(a): true}, &limit); err != nil {
		t.Fatal(err)
	}
	left := f.Cache().List(schema.ResourceFor[*appsv1.ControllerRevision](), "")
	if len(left) != 2 || left[0].GetName() == b.Name || left[1].GetName() == b.Name {
		t.Errorf("left: %d revisions", len(left))
	}
}
