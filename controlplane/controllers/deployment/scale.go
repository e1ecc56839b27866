package deployment

import (
	"cmp"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// planScale spreads a change of the Deployment's size over its ReplicaSets. In
// the middle of a rollout each grows or shrinks by its share, so that the mix
// of versions stays as it was.
func planScale(w world) []scaling {
	if one := onlyActive(w); one != nil {
		return resize(nil, w, one, wanted(w.d))
	}
	active := activeOf(w.all())
	if saturated(w) {
		var out []scaling
		for _, rs := range activeOf(w.old) {
			out = append(out, scaling{rs, 0})
		}
		return out
	}
	if w.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	return spread(w, active)
}

// onlyActive returns the ReplicaSet that a change of size is all for: the only
// one that has pods, or where none has, the newest.
func onlyActive(w world) *appsv1.ReplicaSet {
	active := activeOf(w.all())
	switch {
	case len(active) == 1:
		return active[0]
	case len(active) > 1:
		return nil
	case w.current != nil:
		return w.current
	case len(w.old) > 0:
		return w.old[len(w.old)-1]
	}
	return nil
}

func activeOf(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var out []*appsv1.ReplicaSet
	for _, rs := range sets {
		if size(rs) > 0 {
			out = append(out, rs)
		}
	}
	return out
}

// saturated says that the current ReplicaSet alone is all that is wanted.
func saturated(w world) bool {
	if w.current == nil {
		return false
	}
	n, ok := annotatedNumber(w.current, annDesired)
	return ok && n == wanted(w.d) && size(w.current) == wanted(w.d) && available(w.current) == wanted(w.d)
}

// spread gives each active ReplicaSet its share. The largest comes first and
// takes what rounding leaves.
func spread(w world, active []*appsv1.ReplicaSet) []scaling {
	allowed := int32(0)
	if wanted(w.d) > 0 {
		allowed = wanted(w.d) + maxSurge(w.d)
	}
	toAdd := allowed - total(active, size)
	slices.SortStableFunc(active, func(a, b *appsv1.ReplicaSet) int {
		if toAdd < 0 {
			return cmp.Or(cmp.Compare(size(b), size(a)), byAge(a, b))
		}
		return cmp.Or(cmp.Compare(size(b), size(a)), byAge(b, a))
	})
	added := int32(0)
	to := make([]int32, len(active))
	for i, rs := range active {
		part := share(w.d, rs, toAdd, added)
		to[i] = max(size(rs)+part, 0)
		added += part
	}
	var out []scaling
	for i, rs := range active {
		if i == 0 && toAdd != 0 {
			to[i] = max(to[i]+toAdd-added, 0)
		}
		out = resize(out, w, rs, to[i])
	}
	return out
}

// share is the part of a change that falls to one ReplicaSet.
func share(d *appsv1.Deployment, rs *appsv1.ReplicaSet, toAdd, added int32) int32 {
	if size(rs) == 0 || toAdd == 0 || toAdd == added {
		return 0
	}
	part := fraction(d, rs)
	if toAdd > 0 {
		return min(part, toAdd-added)
	}
	return max(part, toAdd-added)
}

// fraction is how much a ReplicaSet changes when the whole Deployment goes
// from the most pods it might have had to the most it may have now.
func fraction(d *appsv1.Deployment, rs *appsv1.ReplicaSet) int32 {
	if wanted(d) == 0 {
		return -size(rs)
	}
	before, ok := annotatedNumber(rs, annMax)
	if !ok || before == 0 {
		before = d.Status.Replicas
	}
	if before == 0 {
		return 0
	}
	now := float64(size(rs)) * float64(wanted(d)+maxSurge(d)) / float64(before)
	return int32(math.Round(now)) - size(rs)
}

// resize adds a scaling where the size or the annotations that tell of the
// Deployment's size are to change.
func resize(out []scaling, w world, rs *appsv1.ReplicaSet, to int32) []scaling {
	desired, ok1 := annotatedNumber(rs, annDesired)
	most, ok2 := annotatedNumber(rs, annMax)
	if size(rs) == to && ok1 && ok2 && desired == wanted(w.d) && most == wanted(w.d)+maxSurge(w.d) {
		return out
	}
	return append(out, scaling{rs, to})
}
