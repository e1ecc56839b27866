package job

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var begin = time.Unix(1e9, 0)

func jobOf(parallelism, completions, limit int32) *batchv1.Job {
	at := metav1.NewTime(begin)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j", UID: "j"},
		Spec: batchv1.JobSpec{Parallelism: &parallelism, Completions: &completions, BackoffLimit: &limit,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c"}}}}},
		Status: batchv1.JobStatus{StartTime: &at},
	}
}

func podIn(uid string, phase corev1.PodPhase, held bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(begin)}, Status: corev1.PodStatus{Phase: phase}}
	if held {
		p.Finalizers = []string{batchv1.JobTrackingFinalizer}
	}
	return p
}

func reason(s batchv1.JobStatus, t batchv1.JobConditionType) string {
	if c := condition(s.Conditions, t); c != nil && c.Status == corev1.ConditionTrue {
		return c.Reason
	}
	return ""
}

func TestPlan(t *testing.T) {
	yes, deadline := true, int64(60)
	running := func(n int) (out []*corev1.Pod) {
		for i := range n {
			out = append(out, podIn(fmt.Sprint("r", i), corev1.PodRunning, true))
		}
		return out
	}
	for _, c := range []struct {
		name           string
		job            *batchv1.Job
		pods           []*corev1.Pod
		after          time.Duration
		create, remove int
		status         string
	}{
		{"starts", jobOf(3, 10, 6), nil, 0, 3, 0, ""},
		{"no more than are left", jobOf(3, 2, 6), nil, 0, 2, 0, ""},
		{"tops up", jobOf(3, 10, 6), running(2), 0, 1, 0, ""},
		{"ends what is too much", jobOf(1, 10, 6), running(3), 0, 0, 2, ""},
		{"ends all when suspended", func() *batchv1.Job { j := jobOf(3, 10, 6); j.Spec.Suspend = &yes; return j }(), running(3), 0, 0, 3, ""},
		{"fails beyond the limit, and ends the others", jobOf(2, 10, 0), append(running(1), podIn("f", corev1.PodFailed, true)), 0, 0, 1, batchv1.JobReasonBackoffLimitExceeded},
		{"waits after a failure", jobOf(1, 1, 6), []*corev1.Pod{podIn("f", corev1.PodFailed, true)}, 9 * time.Second, 0, 0, ""},
		{"goes on after the pause", jobOf(1, 1, 6), []*corev1.Pod{podIn("f", corev1.PodFailed, true)}, 10 * time.Second, 1, 0, ""},
		{"fails at the deadline", func() *batchv1.Job { j := jobOf(1, 1, 6); j.Spec.ActiveDeadlineSeconds = &deadline; return j }(), running(1), time.Minute, 0, 1, batchv1.JobReasonDeadlineExceeded},
		{"is done", jobOf(2, 1, 6), []*corev1.Pod{podIn("s", corev1.PodSucceeded, true)}, 0, 0, 0, batchv1.JobReasonCompletionsReached},
	} {
		d := plan(c.job, c.pods, begin.Add(c.after))
		if len(d.create) != c.create || len(d.remove) != c.remove {
			t.Errorf("%s: creates %d, ends %d, want %d, %d", c.name, len(d.create), len(d.remove), c.create, c.remove)
		}
		got := reason(d.status, batchv1.JobFailureTarget) + reason(d.status, batchv1.JobSuccessCriteriaMet)
		if got != c.status {
			t.Errorf("%s: %q, want %q", c.name, got, c.status)
		}
	}
}

// crash is a Job whose controller is stopped between any two writes.
type crash struct {
	job  *batchv1.Job
	pods []*corev1.Pod
	rnd  *rand.Rand
	next int
	// what really happened
	succeeded, failed int
}

// step plans, and carries out as much as luck allows.
func (c *crash) step(now time.Time) {
	d := plan(c.job, c.pods, now)
	if c.rnd.IntN(4) == 0 {
		return
	}
	c.job.Status = d.status
	for _, p := range d.release {
		if c.rnd.IntN(4) == 0 {
			return
		}
		p.Finalizers = nil
	}
	for _, p := range d.remove {
		p.Finalizers = nil
		c.pods = slices.DeleteFunc(slices.Clone(c.pods), func(x *corev1.Pod) bool { return x == p })
	}
	for range d.create {
		c.pods = append(c.pods, podIn(fmt.Sprint("p", c.next), corev1.PodRunning, true))
		c.next++
	}
}

// live ends pods, and deletes ended ones that nothing holds.
func (c *crash) live() {
	for _, p := range c.pods {
		if p.Status.Phase == corev1.PodRunning && c.rnd.IntN(3) == 0 {
			p.Status.Phase = corev1.PodSucceeded
			if c.rnd.IntN(3) == 0 {
				p.Status.Phase = corev1.PodFailed
				c.failed++
			} else {
				c.succeeded++
			}
		}
	}
	c.pods = slices.DeleteFunc(slices.Clone(c.pods), func(p *corev1.Pod) bool {
		return p.Status.Phase != corev1.PodRunning && len(p.Finalizers) == 0 && c.rnd.IntN(2) == 0
	})
}

// Each pod that ends counts once, wherever the controller is stopped, and
// however soon an ended pod is deleted.
func TestEveryPodCountsOnce(t *testing.T) {
	for seed := range uint64(500) {
		c := &crash{job: jobOf(4, 12, 1000), rnd: rand.New(rand.NewPCG(seed, 0))}
		now := begin
		for range 3000 {
			c.step(now)
			if finished(c.job.Status.Conditions) {
				break
			}
			c.live()
			now = now.Add(time.Minute)
		}
		s := c.job.Status
		if reason(s, batchv1.JobComplete) == "" {
			t.Fatalf("seed %d: not complete: %+v", seed, s)
		}
		if int(s.Succeeded) != c.succeeded || int(s.Failed) != c.failed || s.Succeeded < 12 {
			t.Fatalf("seed %d: counted %d and %d, were %d and %d", seed, s.Succeeded, s.Failed, c.succeeded, c.failed)
		}
	}
}

func TestIndexes(t *testing.T) {
	for text, count := range map[string]int{"": 0, "0": 1, "0,1": 2, "0-2": 3, "1,3-5,7": 5, "0,2,4,5": 4} {
		x := parseIndexes(text)
		if x.count() != count || x.String() != text {
			t.Errorf("%q: %v, written %q", text, x, x.String())
		}
	}
	var x indexes
	for _, i := range []int{5, 3, 4, 3, 0, 9, -1} {
		x.add(i, 9)
	}
	if x.String() != "0,3-5" {
		t.Errorf("set: %s", x)
	}
}

func TestIndexedPod(t *testing.T) {
	mode := batchv1.IndexedCompletion
	j := jobOf(2, 5, 6)
	j.Spec.CompletionMode = &mode
	j.Status.CompletedIndexes = "1"
	busy := podIn("busy", corev1.PodRunning, true)
	busy.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}
	double := podIn("double", corev1.PodPending, true)
	double.Annotations = busy.Annotations
	d := plan(j, []*corev1.Pod{double, busy}, begin)
	if !slices.Equal(d.create, []int{2}) || len(d.remove) != 1 || d.remove[0] != double {
		t.Errorf("creates %v, ends %d", d.create, len(d.remove))
	}
	p := newPod(j, 2)
	if p.Spec.Hostname != "j-2" || p.GenerateName != "j-2-" || p.Labels[batchv1.JobCompletionIndexAnnotation] != "2" || p.Spec.Containers[0].Env[0].Name != "JOB_COMPLETION_INDEX" || !tracked(p) {
		t.Errorf("pod: %+v", p)
	}
}
