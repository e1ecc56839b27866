package daemonset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/controlplane/controller/podset"
)

// world is what a step is decided on.
type world struct {
	ds    *appsv1.DaemonSet
	hash  string // of the current template
	nodes []*corev1.Node
	pods  map[string][]*corev1.Pod // by the node that they run on or are meant for
	now   time.Time
	// fits says of each of nodes whether it fits. plan fills it in.
	fits []fit
}

// decision is what to do about one DaemonSet.
type decision struct {
	create []string // nodes
	remove []*corev1.Pod
	status appsv1.DaemonSetStatus
	again  time.Duration
}

// plan decides which nodes get a pod and which pods go.
func plan(w world) decision {
	d := decision{}
	here := map[string]bool{}
	m := newMatcher(w.ds)
	w.fits = make([]fit, len(w.nodes))
	for i, node := range w.nodes {
		here[node.Name] = true
		w.fits[i] = m.fits(node)
		d.place(w, node.Name, w.fits[i])
	}
	for name, pods := range w.pods {
		if !here[name] { // podgc takes those that ran on a node; those meant for one never will
			for _, p := range pods {
				if p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
					d.remove = append(d.remove, p)
				}
			}
		}
	}
	if w.ds.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		d.roll(w)
	}
	d.remove = distinct(d.remove)
	d.status = statusOf(w)
	d.again = nextAvailable(w)
	return d
}

// distinct drops pods that were chosen for two reasons.
func distinct(pods []*corev1.Pod) []*corev1.Pod {
	seen := map[*corev1.Pod]bool{}
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool {
		twice := seen[p]
		seen[p] = true
		return twice
	})
}

// place decides about one node, whatever the revision of its pods.
func (d *decision) place(w world, node string, f fit) {
	pods := w.pods[node]
	if !f.stay {
		for _, p := range pods {
			if p.DeletionTimestamp == nil {
				d.remove = append(d.remove, p)
			}
		}
		return
	}
	var living []*corev1.Pod
	leaving := false
	for _, p := range pods {
		switch {
		case p.DeletionTimestamp != nil:
			leaving = true
		case podset.Done(p):
			d.remove = append(d.remove, p)
			leaving = true
		default:
			living = append(living, p)
		}
	}
	if len(living) == 0 && !leaving && f.run {
		d.create = append(d.create, node)
	}
	surge, _ := limits(w.ds, len(w.nodes))
	if len(living) > 1 && !(surge > 0 && len(revisionsOf(living)) > 1) {
		slices.SortFunc(living, byAge) // the oldest stays
		d.remove = append(d.remove, living[1:]...)
	}
}

func byAge(a, b *corev1.Pod) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	if a.Name < b.Name {
		return -1
	}
	return 1
}

func revisionsOf(pods []*corev1.Pod) map[string]bool {
	out := map[string]bool{}
	for _, p := range pods {
		out[p.Labels[appsv1.ControllerRevisionHashLabelKey]] = true
	}
	return out
}

// pair is the pods of one node in a rollout.
type pair struct{ old, current *corev1.Pod }

func (w world) pairOn(node string) pair {
	var p pair
	for _, pod := range w.pods[node] {
		if pod.DeletionTimestamp != nil || podset.Done(pod) {
			continue
		}
		if pod.Labels[appsv1.ControllerRevisionHashLabelKey] == w.hash {
			p.current = pod
		} else {
			p.old = pod
		}
	}
	return p
}

// roll replaces pods of old revisions: with a surge by starting the new pod
// beside the old one, else by ending old ones, those that do not serve first.
func (d *decision) roll(w world) {
	desired := 0
	for _, f := range w.fits {
		if f.run {
			desired++
		}
	}
	surge, unavailable := limits(w.ds, desired)
	if surge > 0 {
		d.rollSurge(w, surge)
		return
	}
	down := 0
	var idle, serving []*corev1.Pod
	for i, node := range w.nodes {
		if !w.fits[i].run {
			continue
		}
		switch p := w.pairOn(node.Name); {
		case p.old != nil && w.available(p.old):
			serving = append(serving, p.old)
		case p.old != nil:
			down++
			idle = append(idle, p.old)
		case p.current == nil || !w.available(p.current):
			down++
		}
	}
	d.remove = append(d.remove, idle...)
	room := min(max(unavailable-down, 0), len(serving))
	d.remove = append(d.remove, serving[:room]...)
}

func (d *decision) rollSurge(w world, surge int) {
	beside := 0
	var waiting []string
	for i, node := range w.nodes {
		p := w.pairOn(node.Name)
		switch {
		case !w.fits[i].run || p.old == nil:
		case p.current == nil && w.available(p.old):
			waiting = append(waiting, node.Name)
		case p.current == nil: // the old one serves nobody: no surge needed
			d.remove = append(d.remove, p.old)
		case w.available(p.current):
			d.remove = append(d.remove, p.old)
		default:
			beside++
		}
	}
	room := min(max(surge-beside, 0), len(waiting))
	d.create = append(d.create, waiting[:room]...)
}

func (w world) available(p *corev1.Pod) bool {
	return podset.Available(p, w.ds.Spec.MinReadySeconds, w.now)
}

// limits resolves maxSurge and maxUnavailable; both are rounded up.
func limits(ds *appsv1.DaemonSet, desired int) (surge, unavailable int) {
	s, u := intstr.FromInt32(0), intstr.FromInt32(1)
	if r := ds.Spec.UpdateStrategy.RollingUpdate; r != nil {
		s, u = *intstr.ValueOrDefault(r.MaxSurge, s), *intstr.ValueOrDefault(r.MaxUnavailable, u)
	}
	surge, serr := intstr.GetScaledValueFromIntOrPercent(&s, desired, true)
	unavailable, uerr := intstr.GetScaledValueFromIntOrPercent(&u, desired, true)
	if serr != nil || uerr != nil || surge == 0 && unavailable == 0 {
		return 0, 1 // validation keeps malformed values out
	}
	return surge, unavailable
}

// statusOf counts nodes and their pods.
func statusOf(w world) appsv1.DaemonSetStatus {
	s := appsv1.DaemonSetStatus{
		ObservedGeneration: w.ds.Generation,
		CollisionCount:     w.ds.Status.CollisionCount,
		Conditions:         w.ds.Status.Conditions,
	}
	for i, node := range w.nodes {
		pods := w.pods[node.Name]
		if !w.fits[i].run {
			if len(pods) > 0 {
				s.NumberMisscheduled++
			}
			continue
		}
		s.DesiredNumberScheduled++
		if len(pods) == 0 {
			continue
		}
		s.CurrentNumberScheduled++
		oldest := slices.MinFunc(pods, byAge)
		if podset.Ready(oldest) {
			s.NumberReady++
			if w.available(oldest) {
				s.NumberAvailable++
			}
		}
		if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Labels[appsv1.ControllerRevisionHashLabelKey] == w.hash }) {
			s.UpdatedNumberScheduled++
		}
	}
	s.NumberUnavailable = s.DesiredNumberScheduled - s.NumberAvailable
	return s
}

// nextAvailable is when the next ready pod will have been so for long enough.
func nextAvailable(w world) time.Duration {
	var next time.Duration
	for _, pods := range w.pods {
		for _, p := range pods {
			if wait, ready := podset.UntilAvailable(p, w.ds.Spec.MinReadySeconds, w.now); ready && podset.Active(p) && wait > 0 {
				next = earliest(next, wait)
			}
		}
	}
	return next
}

// earliest is the shorter of two waits, where 0 is none.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
