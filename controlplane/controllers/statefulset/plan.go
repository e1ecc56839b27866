package statefulset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/controller/history"
	"github.com/writ-os/writ/controlplane/controller/podset"
)

// world is what a step is decided on.
type world struct {
	set             *appsv1.StatefulSet
	pods            []*corev1.Pod
	current, update *appsv1.ControllerRevision
	now             time.Time
}

// numbered is a pod to create.
type numbered struct {
	ordinal  int
	revision *appsv1.ControllerRevision
}

// decision is what to do about one StatefulSet.
type decision struct {
	create []numbered
	remove []*corev1.Pod
	status appsv1.StatefulSetStatus
	again  time.Duration
}

// plan decides the next step: fill the numbers upwards, empty those beyond the
// size downwards, then bring pods of old revisions up to date downwards. With
// the policy OrderedReady each step waits for the one before.
func plan(w world) decision {
	d := decision{status: statusOf(w), again: nextAvailable(w)}
	ordered := w.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	live, beyond := w.sorted()
	if d.fill(w, live, ordered) && ordered {
		return d
	}
	if d.shrink(w, live, beyond, ordered) && ordered {
		return d
	}
	if w.set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType && len(d.create)+len(d.remove) == 0 {
		d.update(w, live)
	}
	return d
}

// sorted returns the pods by number, nil where there is none, and those of
// numbers beyond the size, highest first.
func (w world) sorted() (live []*corev1.Pod, beyond []*corev1.Pod) {
	live = make([]*corev1.Pod, size(w.set))
	for _, p := range w.pods {
		n, ok := ordinalOf(w.set, p.Name)
		if i := n - start(w.set); ok && i >= 0 && i < len(live) {
			live[i] = p
		} else if ok {
			beyond = append(beyond, p)
		}
	}
	slices.SortFunc(beyond, func(a, b *corev1.Pod) int {
		na, _ := ordinalOf(w.set, a.Name)
		nb, _ := ordinalOf(w.set, b.Name)
		return nb - na
	})
	return live, beyond
}

// fill creates what is missing and replaces what has ended; true when there is
// something to wait for.
func (d *decision) fill(w world, live []*corev1.Pod, ordered bool) (wait bool) {
	for i, p := range live {
		switch {
		case p == nil:
			d.create = append(d.create, numbered{start(w.set) + i, w.revisionFor(i)})
		case p.DeletionTimestamp != nil:
		case podset.Done(p):
			d.remove = append(d.remove, p)
		case w.available(p):
			continue
		}
		wait = true
		if ordered {
			return true
		}
	}
	return wait
}

// revisionFor is the revision that a missing pod is created with: the new one
// at and above the partition, and where the rollout has come to already.
func (w world) revisionFor(i int) *appsv1.ControllerRevision {
	if w.set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType || i+start(w.set) >= partition(w.set) {
		return w.update
	}
	return w.current
}

// shrink ends the pods beyond the size.
func (d *decision) shrink(w world, live, beyond []*corev1.Pod, ordered bool) (wait bool) {
	unhealthy := firstUnhealthy(w, live, beyond)
	for _, p := range beyond {
		wait = true
		if p.DeletionTimestamp == nil && (!ordered || w.available(p) || p == unhealthy) {
			d.remove = append(d.remove, p)
		}
		if ordered {
			return true
		}
	}
	return wait
}

// firstUnhealthy is the pod of the lowest number that does not serve.
func firstUnhealthy(w world, live, beyond []*corev1.Pod) *corev1.Pod {
	for _, p := range slices.Concat(live, reversed(beyond)) {
		if p != nil && !w.available(p) {
			return p
		}
	}
	return nil
}

func reversed(in []*corev1.Pod) []*corev1.Pod {
	out := slices.Clone(in)
	slices.Reverse(out)
	return out
}

// update ends the highest pod that is not of the new revision, if all above it
// serve.
func (d *decision) update(w world, live []*corev1.Pod) {
	for i := len(live) - 1; i >= 0 && i+start(w.set) >= partition(w.set); i-- {
		p := live[i]
		if p == nil || p.DeletionTimestamp != nil {
			return
		}
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] != history.Hash(w.update) {
			d.remove = append(d.remove, p)
			return
		}
		if !w.available(p) {
			return
		}
	}
}

func (w world) available(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && podset.Available(p, w.set.Spec.MinReadySeconds, w.now)
}

// statusOf counts the pods.
func statusOf(w world) appsv1.StatefulSetStatus {
	s := appsv1.StatefulSetStatus{
		ObservedGeneration: w.set.Generation,
		CurrentRevision:    w.current.Name,
		UpdateRevision:     w.update.Name,
		CollisionCount:     w.set.Status.CollisionCount,
		Conditions:         w.set.Status.Conditions,
	}
	if s.CollisionCount == nil {
		s.CollisionCount = new(int32)
	}
	for _, p := range w.pods {
		s.Replicas++
		if podset.Ready(p) && p.Status.Phase == corev1.PodRunning {
			s.ReadyReplicas++
			if w.available(p) {
				s.AvailableReplicas++
			}
		}
		if p.DeletionTimestamp != nil {
			continue
		}
		switch p.Labels[appsv1.ControllerRevisionHashLabelKey] {
		case history.Hash(w.update):
			s.UpdatedReplicas++
			if w.current.Name == w.update.Name {
				s.CurrentReplicas++
			}
		case history.Hash(w.current):
			s.CurrentReplicas++
		}
	}
	done := s.UpdatedReplicas == s.Replicas && s.ReadyReplicas == s.Replicas && int(s.Replicas) == size(w.set)
	if w.set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType && done {
		s.CurrentReplicas, s.CurrentRevision = s.UpdatedReplicas, s.UpdateRevision
	}
	return s
}

func nextAvailable(w world) time.Duration {
	var next time.Duration
	for _, p := range w.pods {
		wait, ready := podset.UntilAvailable(p, w.set.Spec.MinReadySeconds, w.now)
		if ready && wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}

func size(set *appsv1.StatefulSet) int {
	if set.Spec.Replicas == nil {
		return 1
	}
	return int(*set.Spec.Replicas)
}

func start(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

// partition is the lowest number that is updated.
func partition(set *appsv1.StatefulSet) int {
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		return int(*r.Partition) + start(set)
	}
	return start(set)
}
