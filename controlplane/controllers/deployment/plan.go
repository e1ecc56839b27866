package deployment

import (
	"cmp"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// world is what a step is decided on.
type world struct {
	d       *appsv1.Deployment
	current *appsv1.ReplicaSet   // that of the Deployment's template, or nil
	old     []*appsv1.ReplicaSet // all others, oldest first
	podsRun func(old []*appsv1.ReplicaSet) bool
}

// all returns old and current.
func (w world) all() []*appsv1.ReplicaSet {
	if w.current == nil {
		return w.old
	}
	return append(slices.Clone(w.old), w.current)
}

// worldOf sorts the ReplicaSets of a Deployment. Where two have its template
// the older is the current one.
func worldOf(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, podsRun func([]*appsv1.ReplicaSet) bool) world {
	own := *d // acting updates the copies, never what the cache holds
	w := world{d: &own, podsRun: podsRun}
	sets = slices.Clone(sets)
	slices.SortFunc(sets, byAge)
	for _, shared := range sets {
		rs := new(appsv1.ReplicaSet)
		*rs = *shared
		if w.current == nil && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			w.current = rs
			continue
		}
		w.old = append(w.old, rs)
	}
	return w
}

func byAge(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// sameTemplate compares without the label that holds the hash.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	strip := func(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
		if _, ok := t.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; !ok {
			return t
		}
		t = t.DeepCopy()
		delete(t.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		return t
	}
	return apiequality.Semantic.DeepEqual(strip(a), strip(b))
}

// scaling sets the size of a ReplicaSet.
type scaling struct {
	rs *appsv1.ReplicaSet
	to int32
}

// decision is what to do in this step.
type decision struct {
	create  bool  // the ReplicaSet of the template
	size    int32 // with so many replicas
	scale   []scaling
	remove  []*appsv1.ReplicaSet // beyond the revision history
	rollout bool                 // progress is measured
}

// plan decides the next step. A change of size comes before the next step of
// a rollout.
func plan(w world) decision {
	var scale []scaling
	if w.d.Spec.Paused || resized(w) {
		scale = planScale(w)
	}
	switch {
	case w.d.DeletionTimestamp != nil:
		return decision{}
	case w.d.Spec.Paused:
		return decision{scale: scale, remove: beyondHistory(w)}
	case len(scale) > 0:
		return decision{scale: scale}
	case w.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		return planRecreate(w)
	}
	return planRolling(w)
}

// resized says that the Deployment's size changed since its ReplicaSets were
// last scaled: all of them take part in the change before the rollout goes on.
func resized(w world) bool {
	for _, rs := range w.all() {
		if size(rs) == 0 {
			continue
		}
		if n, ok := annotatedNumber(rs, annDesired); ok && n != wanted(w.d) {
			return true
		}
	}
	return false
}

// planRecreate ends all old pods before the first new one is created.
func planRecreate(w world) decision {
	p := decision{rollout: true}
	for _, rs := range w.old {
		if size(rs) > 0 {
			p.scale = append(p.scale, scaling{rs, 0})
		}
	}
	switch {
	case len(p.scale) > 0 || w.podsRun(w.old):
		return p
	case w.current == nil:
		p.create, p.size = true, wanted(w.d)
	case size(w.current) != wanted(w.d):
		p.scale = []scaling{{w.current, wanted(w.d)}}
	}
	if complete(w.d, w.d.Status) {
		p.remove = beyondHistory(w)
	}
	return p
}

// planRolling scales the new ReplicaSet up as far as the surge allows, else
// the old ones down as far as availability allows.
func planRolling(w world) decision {
	p := decision{rollout: true}
	if w.current == nil {
		p.create, p.size = true, grown(w)
		return p
	}
	if to := grown(w); to != size(w.current) {
		p.scale = []scaling{{w.current, to}}
		return p
	}
	if p.scale = shrunk(w); len(p.scale) > 0 {
		return p
	}
	if complete(w.d, w.d.Status) {
		p.remove = beyondHistory(w)
	}
	return p
}

// grown is the size that the new ReplicaSet may have now.
func grown(w world) int32 {
	have := int32(0)
	if w.current != nil {
		have = size(w.current)
	}
	want := wanted(w.d)
	if have >= want {
		return want
	}
	room := want + maxSurge(w.d) - total(w.all(), size)
	if room <= 0 {
		return have
	}
	return have + min(room, want-have)
}

// shrunk returns how far the old ReplicaSets may go down now: first the pods
// that are not available anyway, then as many of the others as leaves enough.
func shrunk(w world) []scaling {
	if total(w.old, size) == 0 {
		return nil
	}
	least := wanted(w.d) - maxUnavailable(w.d)
	newUnavailable := size(w.current) - w.current.Status.AvailableReplicas
	room := total(w.all(), size) - least - newUnavailable
	if room <= 0 {
		return nil
	}
	to := make([]int32, len(w.old))
	for i, rs := range w.old { // unhealthy ones
		unhealthy := max(size(rs)-rs.Status.AvailableReplicas, 0)
		cut := min(room, unhealthy)
		to[i] = size(rs) - cut
		room -= cut
	}
	spare := total(w.all(), available) - least
	for i := range w.old {
		cut := max(min(spare, to[i]), 0)
		to[i] -= cut
		spare -= cut
	}
	var out []scaling
	for i, rs := range w.old {
		if to[i] != size(rs) {
			out = append(out, scaling{rs, to[i]})
		}
	}
	return out
}

// beyondHistory returns the oldest ReplicaSets that are at rest and more than
// the history keeps.
func beyondHistory(w world) []*appsv1.ReplicaSet {
	limit := w.d.Spec.RevisionHistoryLimit
	if limit == nil || *limit == math.MaxInt32 {
		return nil
	}
	old := slices.DeleteFunc(slices.Clone(w.old), func(rs *appsv1.ReplicaSet) bool { return rs.DeletionTimestamp != nil })
	excess := len(old) - int(*limit)
	if excess <= 0 {
		return nil
	}
	slices.SortStableFunc(old, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(revision(a), revision(b)) })
	return slices.DeleteFunc(old[:excess], func(rs *appsv1.ReplicaSet) bool {
		return rs.Status.Replicas != 0 || size(rs) != 0 || rs.Generation > rs.Status.ObservedGeneration
	})
}

func wanted(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func size(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}

func available(rs *appsv1.ReplicaSet) int32 { return rs.Status.AvailableReplicas }

func total(sets []*appsv1.ReplicaSet, of func(*appsv1.ReplicaSet) int32) int32 {
	n := int32(0)
	for _, rs := range sets {
		n += of(rs)
	}
	return n
}

// limits resolves maxSurge (rounded up) and maxUnavailable (rounded down).
// Both zero would allow no step at all; then one may be unavailable.
func limits(d *appsv1.Deployment) (surge, unavailable int32) {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return 0, 0
	}
	s, u := intstr.FromString("25%"), intstr.FromString("25%")
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		s, u = *intstr.ValueOrDefault(r.MaxSurge, s), *intstr.ValueOrDefault(r.MaxUnavailable, u)
	}
	sn, serr := intstr.GetScaledValueFromIntOrPercent(&s, int(wanted(d)), true)
	un, uerr := intstr.GetScaledValueFromIntOrPercent(&u, int(wanted(d)), false)
	if serr != nil || uerr != nil || sn == 0 && un == 0 {
		return 0, 1 // validation keeps malformed values out
	}
	return int32(sn), int32(un)
}

func maxSurge(d *appsv1.Deployment) int32 {
	s, _ := limits(d)
	return s
}

func maxUnavailable(d *appsv1.Deployment) int32 {
	if wanted(d) == 0 {
		return 0
	}
	_, u := limits(d)
	return min(u, wanted(d))
}
