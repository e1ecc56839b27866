package clienttest

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// patch sends a patch and returns the object.
func patch[T schema.Object](s *suite, name string, t types.PatchType, body string, w client.WriteOptions) (T, error) {
	o, err := s.c.Patch(s.ctx, schema.ResourceFor[T](), key(name), t, []byte(body), w)
	if err != nil {
		var none T
		return none, err
	}
	return o.(T), nil
}

func (s *suite) patches() {
	made := create(s, configMap("a", nil, map[string]string{"k": "1", "gone": "1"}))
	_, err := patch[*corev1.ConfigMap](s, "a", types.JSONPatchType, `[{"op":"replace","path":"/data/k","value":"2"}]`, options)
	s.ok("JSON patch", err)
	got, err := patch[*corev1.ConfigMap](s, "a", types.MergePatchType, `{"data":{"gone":null,"m":"1"}}`, options)
	s.ok("merge patch", err)
	if len(got.Data) != 2 || got.Data["k"] != "2" || got.Data["m"] != "1" {
		s.Errorf("patched: %v", got.Data)
	}
	_, err = patch[*corev1.ConfigMap](s, "a", types.MergePatchType, `{"metadata":{"resourceVersion":"`+made.ResourceVersion+`"},"data":{"x":"1"}}`, options)
	s.is("patch of an old version", err, apierrors.IsConflict)
	_, err = patch[*corev1.ConfigMap](s, "a", types.MergePatchType, `{"metadata":{"uid":"other"},"data":{"x":"1"}}`, options)
	if err == nil {
		s.Error("patch of another UID was taken")
	}
	_, err = patch[*corev1.ConfigMap](s, "none", types.MergePatchType, `{"data":{"x":"1"}}`, options)
	s.is("patch of none", err, apierrors.IsNotFound)

	// A strategic merge patch merges lists by their key.
	create(s, deployment("web"))
	d, err := patch[*appsv1.Deployment](s, "web", types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"s:v1"}]}}}}`, options)
	s.ok("strategic merge patch", err)
	if n := len(d.Spec.Template.Spec.Containers); n != 2 || d.Generation != 2 {
		s.Errorf("%d containers, generation %d", n, d.Generation)
	}
	w := options
	w.Subresource = "status"
	d, err = patch[*appsv1.Deployment](s, "web", types.MergePatchType, `{"spec":{"replicas":7},"status":{"replicas":3}}`, w)
	s.ok("patch of the status", err)
	if *orOne(d.Spec.Replicas) == 7 || d.Status.Replicas != 3 {
		s.Errorf("patched status: %d %+v", *orOne(d.Spec.Replicas), d.Status)
	}
}

func orOne(n *int32) *int32 {
	if n == nil {
		n = new(int32)
		*n = 1
	}
	return n
}

// apply: fields belong to who applied them last, and go when he leaves them
// out.
func (s *suite) apply() {
	body := func(data string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"data":` + data + `}`
	}
	git := client.WriteOptions{FieldManager: "git"}
	got, err := patch[*corev1.ConfigMap](s, "a", types.ApplyPatchType, body(`{"k":"1","gone":"1"}`), git)
	s.ok("apply", err)
	if got.UID == "" || len(got.ManagedFields) != 1 || got.ManagedFields[0].Manager != "git" {
		s.Errorf("applied: %+v", got.ObjectMeta)
	}
	got, err = patch[*corev1.ConfigMap](s, "a", types.ApplyPatchType, body(`{"k":"2"}`), git)
	s.ok("apply again", err)
	if len(got.Data) != 1 || got.Data["k"] != "2" {
		s.Errorf("applied again: %v", got.Data)
	}
	_, err = patch[*corev1.ConfigMap](s, "a", types.ApplyPatchType, body(`{"k":"3"}`), client.WriteOptions{FieldManager: "other"})
	s.is("apply over another's field", err, apierrors.IsConflict)
	got, err = patch[*corev1.ConfigMap](s, "a", types.ApplyPatchType, body(`{"k":"3"}`), client.WriteOptions{FieldManager: "other", Force: true})
	s.ok("apply by force", err)
	if got.Data["k"] != "3" {
		s.Errorf("applied by force: %v", got.Data)
	}
}
