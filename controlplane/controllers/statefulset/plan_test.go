package statefulset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func revision(hash string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "db-" + hash, Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: hash}}}
}

// worldOf reads pods from "0:old:ready 1:new:down 2:new:ending 3:old:failed".
func worldOf(replicas int32, pods string) world {
	w := world{set: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: &replicas}},
		current: revision("old"), update: revision("new"), now: time.Unix(1e9, 0)}
	for text := range strings.FieldsSeq(pods) {
		part := strings.Split(text, ":")
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-" + part[0], Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: part[1]}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		switch part[2] {
		case "ready":
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		case "ending":
			p.DeletionTimestamp = &metav1.Time{Time: w.now}
		case "failed":
			p.Status.Phase = corev1.PodFailed
		}
		w.pods = append(w.pods, p)
	}
	return w
}

func describe(d decision) string {
	var out []string
	for _, n := range d.create {
		out = append(out, fmt.Sprintf("+%d:%s", n.ordinal, n.revision.Labels[appsv1.ControllerRevisionHashLabelKey]))
	}
	for _, p := range d.remove {
		out = append(out, "-"+strings.TrimPrefix(p.Name, "db-"))
	}
	return strings.Join(out, " ")
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name     string
		replicas int32
		pods     string
		change   func(*appsv1.StatefulSet)
		want     string
	}{
		{"begins with the first", 3, "", nil, "+0:new"},
		{"waits for the first", 3, "0:new:down", nil, ""},
		{"goes on", 3, "0:new:ready", nil, "+1:new"},
		{"fills a gap first", 3, "0:new:ready 2:new:ready", nil, "+1:new"},
		{"all at once", 3, "", func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }, "+0:new +1:new +2:new"},
		{"ends the highest", 1, "0:new:ready 1:new:ready 2:new:ready", nil, "-2"},
		{"waits for one that ends", 1, "0:new:ready 1:new:ready 2:new:ending", nil, ""},
		{"ends none while a lower one is down", 1, "0:new:down 1:new:ready 2:new:ready", nil, ""},
		{"ends all at once", 1, "0:new:ready 1:new:ready 2:new:ready", func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }, "-2 -1"},
		{"replaces a failed one", 2, "0:new:ready 1:new:failed", nil, "-1"},
		{"updates the highest first", 3, "0:old:ready 1:old:ready 2:old:ready", nil, "-2"},
		{"waits for the updated one", 3, "0:old:ready 1:old:ready 2:new:down", nil, ""},
		{"goes on updating", 3, "0:old:ready 1:old:ready 2:new:ready", nil, "-1"},
		{"stops at the partition", 3, "0:old:ready 1:old:ready 2:new:ready", func(s *appsv1.StatefulSet) {
			two := int32(2)
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &two}
		}, ""},
		{"makes those below the partition anew as they were", 3, "1:old:ready 2:new:ready", func(s *appsv1.StatefulSet) {
			two := int32(2)
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &two}
		}, "+0:old"},
		{"leaves updating to people", 3, "0:old:ready 1:old:ready 2:old:ready", func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType }, ""},
		{"counts from where it is told", 2, "5:new:ready", func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }, "+6:new"},
	} {
		w := worldOf(c.replicas, c.pods)
		if c.change != nil {
			c.change(w.set)
		}
		if got := describe(plan(w)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestStatus(t *testing.T) {
	s := statusOf(worldOf(3, "0:old:ready 1:old:ready 2:new:down"))
	if s.Replicas != 3 || s.ReadyReplicas != 2 || s.CurrentReplicas != 2 || s.UpdatedReplicas != 1 || s.CurrentRevision != "db-old" || s.UpdateRevision != "db-new" {
		t.Errorf("in the middle: %+v", s)
	}
	s = statusOf(worldOf(3, "0:new:ready 1:new:ready 2:new:ready"))
	if s.CurrentRevision != "db-new" || s.CurrentReplicas != 3 {
		t.Errorf("in the end: %+v", s)
	}
}

func TestOrdinals(t *testing.T) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
	for name, want := range map[string]int{"db-0": 0, "db-12": 12, "db-01": -1, "db-x": -1, "dbx-1": -1, "db-": -1, "db--1": -1} {
		n, ok := ordinalOf(set, name)
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("%s: %d %v", name, n, ok)
		}
	}
}

func TestPodHasItsVolumes(t *testing.T) {
	set := &appsv1.StatefulSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: appsv1.StatefulSetSpec{
		ServiceName: "peers", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}}}
	tmpl := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data"}, {Name: "tmp"}}}}
	p := newPod(set, tmpl, "hash", 2)
	if p.Name != "db-2" || p.Spec.Hostname != "db-2" || p.Spec.Subdomain != "peers" || p.Labels[appsv1.PodIndexLabel] != "2" || len(p.Spec.Volumes) != 2 || p.Spec.Volumes[1].PersistentVolumeClaim.ClaimName != "data-db-2" {
		t.Errorf("pod: %+v", p)
	}
	c := claims(set, 2)
	if len(c) != 1 || c[0].Name != "data-db-2" || c[0].Labels["app"] != "db" || len(c[0].OwnerReferences) != 0 {
		t.Errorf("claims: %+v", c)
	}
}
