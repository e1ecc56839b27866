package job

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/controller/podset"
)

// tracked says that the pod still has the finalizer.
func tracked(p *corev1.Pod) bool { return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) }

// ended is when a pod ended: when the last of its containers did.
func ended(p *corev1.Pod) time.Time {
	var at time.Time
	for _, cs := range p.Status.ContainerStatuses {
		if t := cs.State.Terminated; t != nil {
			at = later(at, t.FinishedAt.Time)
		}
	}
	if c := podset.Condition(p, corev1.PodReady); at.IsZero() && c != nil {
		at = c.LastTransitionTime.Time
	}
	if at.IsZero() && p.DeletionTimestamp != nil {
		at = p.DeletionTimestamp.Time
	}
	if at.IsZero() {
		at = p.CreationTimestamp.Time
	}
	return at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func indexed(job *batchv1.Job) bool {
	return job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion
}

func completions(job *batchv1.Job) int {
	if job.Spec.Completions == nil {
		return 0
	}
	return int(*job.Spec.Completions)
}

// newPod returns a pod of the Job; index -1 for none.
func newPod(job *batchv1.Job, index int) *corev1.Pod {
	p := podset.FromTemplate(&job.Spec.Template, job)
	p.Finalizers = append(p.Finalizers, batchv1.JobTrackingFinalizer)
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	if job.Spec.ManualSelector == nil || !*job.Spec.ManualSelector {
		for _, l := range []string{batchv1.ControllerUidLabel, "controller-uid"} {
			p.Labels[l] = string(job.UID)
		}
		for _, l := range []string{batchv1.JobNameLabel, "job-name"} {
			p.Labels[l] = job.Name
		}
	}
	if index >= 0 {
		setIndex(p, job.Name, index)
	}
	return p
}

// setIndex gives a pod its completion index in every form that programs read.
func setIndex(p *corev1.Pod, job string, index int) {
	n := strconv.Itoa(index)
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[batchv1.JobCompletionIndexAnnotation] = n
	p.Labels[batchv1.JobCompletionIndexAnnotation] = n
	p.Spec.Hostname = job + "-" + n
	p.GenerateName = job + "-" + n + "-"
	env := corev1.EnvVar{Name: "JOB_COMPLETION_INDEX", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"},
	}}
	for _, cs := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range cs {
			if !slices.ContainsFunc(cs[i].Env, func(e corev1.EnvVar) bool { return e.Name == env.Name }) {
				cs[i].Env = append(cs[i].Env, env)
			}
		}
	}
}

// indexOf returns a pod's completion index; -1 for none.
func indexOf(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// indexes is a sorted set of completion indexes, written "1,3-5,7".
type indexes []int

func parseIndexes(s string) indexes {
	var out indexes
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(to); err != nil {
				continue
			}
		}
		for i := a; i <= b; i++ {
			out = append(out, i)
		}
	}
	return out
}

func (x indexes) String() string {
	var b strings.Builder
	for i := 0; i < len(x); {
		j := i
		for j+1 < len(x) && x[j+1] == x[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(x[i]))
		switch {
		case j == i+1:
			b.WriteString("," + strconv.Itoa(x[j]))
		case j > i+1:
			b.WriteString("-" + strconv.Itoa(x[j]))
		}
		i = j + 1
	}
	return b.String()
}

func (x indexes) has(i int) bool {
	_, ok := slices.BinarySearch(x, i)
	return ok
}

func (x indexes) count() int { return len(x) }

// add puts an index in, if it is one of the Job's.
func (x *indexes) add(i, completions int) {
	if i < 0 || i >= completions {
		return
	}
	if at, ok := slices.BinarySearch(*x, i); !ok {
		*x = slices.Insert(*x, at, i)
	}
}

// uniqueIndexes keeps one pod for each index that is not completed: the one
// farthest on. The others are superfluous.
func uniqueIndexes(active []*corev1.Pod, completed indexes, completions int) (unique, superfluous []*corev1.Pod) {
	sorted := slices.Clone(active)
	slices.SortStableFunc(sorted, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
	seen := map[int]bool{}
	for _, p := range sorted {
		i := indexOf(p)
		if i < 0 || i >= completions || completed.has(i) || seen[i] {
			superfluous = append(superfluous, p)
			continue
		}
		seen[i] = true
		unique = append(unique, p)
	}
	return unique, superfluous
}

func rank(p *corev1.Pod) int {
	switch {
	case podset.Ready(p):
		return 2
	case p.Status.Phase == corev1.PodRunning:
		return 1
	}
	return 0
}

// freeIndexes returns the first n indexes that are neither completed nor being
// worked on.
func freeIndexes(n int, active []*corev1.Pod, completed indexes, completions int) []int {
	busy := map[int]bool{}
	for _, p := range active {
		busy[indexOf(p)] = true
	}
	var out []int
	for i := 0; i < completions && len(out) < n; i++ {
		if !busy[i] && !completed.has(i) {
			out = append(out, i)
		}
	}
	return out
}
