package plan

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

const withClaims = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: "db:1"}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// asStored is the set as the server keeps it: of each template it writes down
// the kind and the status of a new claim, as upstream does.
func asStored(w world) *appsv1.StatefulSet {
	o, _ := w.fake.Cache().Get(schema.ResourceFor[*appsv1.StatefulSet](), schema.Key{Namespace: "default", Name: "db"})
	s := o.(*appsv1.StatefulSet).DeepCopy()
	for i := range s.Spec.VolumeClaimTemplates {
		t := &s.Spec.VolumeClaimTemplates[i]
		t.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
		t.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	}
	return s
}

// TestClaimTemplates: a set with claim templates can be changed, for what the
// server adds to a template is no change of it; a change of a template still is
// one.
func TestClaimTemplates(t *testing.T) {
	for _, c := range []struct{ name, template string }{
		{"plain", withClaims},
		{"typed", strings.Replace(withClaims, "- metadata: {name: data}", "- apiVersion: v1\n    kind: PersistentVolumeClaim\n    metadata: {name: data, creationTimestamp: null}", 1)},
		{"with status", withClaims + "    status: {phase: Pending}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := world{t, client.NewFake()}
			w.apply([]Unit{unit(t, "a.yaml", c.template)})
			w.fake.Put(asStored(w))
			if p := Compute(w.input([]Unit{unit(t, "a.yaml", c.template)})); len(p.Findings)+len(p.Ops) > 0 {
				t.Errorf("unchanged: %v %s", p.Findings, describe(p))
			}
			p := Compute(w.input([]Unit{unit(t, "a.yaml", strings.Replace(c.template, "db:1", "db:2", 1))}))
			if len(p.Findings) > 0 || p.Count(Update) != 1 || len(p.Ops[0].Diffs) != 1 {
				t.Errorf("%v %s", p.Findings, describe(p))
			}
			p = Compute(w.input([]Unit{unit(t, "a.yaml", strings.Replace(c.template, "1Gi", "2Gi", 1))}))
			if len(p.Findings) != 1 || p.Findings[0].Rule != "Immutable" {
				t.Errorf("a template that changes: %v %s", p.Findings, describe(p))
			}
		})
	}
}
