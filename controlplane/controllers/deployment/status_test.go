package deployment

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The conditions of a rollout that goes well, and of one that gets stuck.
func TestProgress(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := deployment(2, intstr.FromInt32(1), intstr.FromInt32(0))
	d.Spec.ProgressDeadlineSeconds = new(int32)
	*d.Spec.ProgressDeadlineSeconds = 60
	w := world{d: d, current: replicaSet("v9", 2, 0, 0), podsRun: none}
	look := func(after time.Duration, available int32) (reason string, availableReason string) {
		t.Helper()
		now = now.Add(after)
		w.current.Status.AvailableReplicas, w.current.Status.ReadyReplicas = available, available
		d.Status = progress(w, statusOf(w, d.Status, now), now)
		return condition(d.Status, appsv1.DeploymentProgressing).Reason, condition(d.Status, appsv1.DeploymentAvailable).Reason
	}
	for i, c := range []struct {
		after            time.Duration
		available        int32
		progress, served string
	}{
		{0, 0, "ReplicaSetUpdated", "MinimumReplicasUnavailable"},
		{50 * time.Second, 1, "ReplicaSetUpdated", "MinimumReplicasUnavailable"}, // new time
		{50 * time.Second, 1, "ReplicaSetUpdated", "MinimumReplicasUnavailable"}, // 50 s since progress
		{11 * time.Second, 1, "ProgressDeadlineExceeded", "MinimumReplicasUnavailable"},
		{time.Hour, 2, "NewReplicaSetAvailable", "MinimumReplicasAvailable"},
		{time.Hour, 1, "NewReplicaSetAvailable", "MinimumReplicasUnavailable"}, // complete once, not measured again
	} {
		p, a := look(c.after, c.available)
		if p != c.progress || a != c.served {
			t.Errorf("step %d: %s, %s, want %s, %s", i, p, a, c.progress, c.served)
		}
	}
}

func TestPauseStopsTheClock(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := deployment(2, intstr.FromInt32(1), intstr.FromInt32(0))
	d.Spec.ProgressDeadlineSeconds = new(int32)
	*d.Spec.ProgressDeadlineSeconds = 60
	setCondition(&d.Status, appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated", "", now)
	d.Spec.Paused = true
	notePause(d, &d.Status, now)
	if c := condition(d.Status, appsv1.DeploymentProgressing); c.Reason != "DeploymentPaused" || c.Status != corev1.ConditionUnknown {
		t.Errorf("paused: %+v", c)
	}
	d.Spec.Paused = false
	later := now.Add(time.Hour)
	notePause(d, &d.Status, later)
	c := condition(d.Status, appsv1.DeploymentProgressing)
	if c.Reason != "DeploymentResumed" || timedOut(d, d.Status, later.Add(59*time.Second)) || !timedOut(d, d.Status, later.Add(61*time.Second)) {
		t.Errorf("resumed: %+v", c)
	}
}

func TestRevisionNumbers(t *testing.T) {
	d := deployment(1, intstr.FromInt32(1), intstr.FromInt32(0))
	d.Annotations = map[string]string{"team": "a", annRevision: "7", corev1.LastAppliedConfigAnnotation: "{}"}
	rs := replicaSet("v1", 1, 1, 0)
	rs.Annotations[annRevision] = "1"
	annotate(d, rs, 3)
	if rs.Annotations[annRevision] != "3" || rs.Annotations[annHistory] != "1" || rs.Annotations["team"] != "a" || rs.Annotations[corev1.LastAppliedConfigAnnotation] != "" {
		t.Errorf("annotations: %v", rs.Annotations)
	}
	annotate(d, rs, 2)
	if rs.Annotations[annRevision] != "3" {
		t.Errorf("a revision went back: %v", rs.Annotations)
	}
}

// The hash does not know its own label, and knows everything else.
func TestTemplateHash(t *testing.T) {
	a, b := template("v1"), template("v2")
	one := int32(1)
	if templateHash(&a, nil) == templateHash(&b, nil) || templateHash(&a, nil) == templateHash(&a, &one) {
		t.Error("different templates, or salts, have one hash")
	}
	labelled := *a.DeepCopy()
	labelled.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = templateHash(&a, nil)
	if !sameTemplate(&a, &labelled) || sameTemplate(&a, &b) {
		t.Error("the label with the hash counts as a difference")
	}
}
