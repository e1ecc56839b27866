package validate

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestSentence: what the schema of a custom kind says is said as of built-in
// ones.
func TestSentence(t *testing.T) {
	at := field.NewPath("spec", "x")
	for _, c := range []struct {
		err  *field.Error
		want string
	}{
		{field.TypeInvalid(at, "object", `spec.x in body must be of type array: "object"`), "spec.x: must be a list, is a map"},
		{field.TypeInvalid(at, "string", `must be of type integer: "string"`), "spec.x: must be a whole number, is a string"},
		{field.Required(at, ""), "spec.x: is required"},
		{field.NotSupported(at, "C", []string{"A", "B"}), `spec.x: must be one of "A", "B", is "C"`},
		{field.NotSupported(at, "C", []string{"A"}), `spec.x: must be "A", is "C"`},
		{field.TooLong(nil, "", 3), "is longer than it may be: may not be more than 3 bytes"},
		{field.Duplicate(at, "a"), `spec.x: is there twice: "a"`},
		{field.Invalid(at, 7, "spec.x in body should be less than or equal to 5"), "spec.x: should be less than or equal to 5, is 7"},
	} {
		if got := sentence(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
	if err := field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid"); !notChecked(err) || fieldOf(err) != "" {
		t.Error("what was not checked is taken for a mistake")
	}
}

// TestClaimsAreVolumes: the pods of a StatefulSet may mount its claims.
func TestClaimsAreVolumes(t *testing.T) {
	const set = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: db, volumeMounts: [{name: data, mountPath: /a}, {name: other, mountPath: /b}]}]
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
`
	m := manifests(t, set)
	found := Manifest(&m[0])
	refused, _ := Typed(&m[0], Decode(&m[0]), found)
	for _, f := range append(found, refused...) {
		if f.Field == "spec.template.spec.containers[0].volumeMounts[0].name" {
			t.Errorf("a claim is no volume: %+v", f)
		}
	}
}

// TestLevels: a level or a version of Pod Security that nobody knows is found at
// its label.
func TestLevels(t *testing.T) {
	const spaces = `apiVersion: v1
kind: Namespace
metadata:
  name: a
  labels:
    pod-security.kubernetes.io/enforce: strict
    pod-security.kubernetes.io/warn: baseline
    pod-security.kubernetes.io/warn-version: v1.x
---
apiVersion: v1
kind: Namespace
metadata:
  name: b
  labels: {pod-security.kubernetes.io/enforce: privileged, pod-security.kubernetes.io/enforce-version: v1.30}
`
	want := map[int]string{
		6: `metadata.labels[pod-security.kubernetes.io/enforce]: must be one of privileged, baseline, restricted`,
		8: `metadata.labels[pod-security.kubernetes.io/warn-version]: must be "latest" or "v1.x"`,
	}
	ms, got := manifests(t, spaces), map[int]string{}
	for i := range ms {
		refused, _ := Typed(&ms[i], Decode(&ms[i]), Manifest(&ms[i]))
		for _, f := range refused {
			got[f.Line] = f.Message
		}
	}
	for line := range 20 {
		if got[line] != want[line] {
			t.Errorf("line %d: %q, want %q", line, got[line], want[line])
		}
	}
}
