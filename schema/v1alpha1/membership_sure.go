package v1alpha1

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// kubeletLabels are the labels of Kubernetes' own domains that a node may give
// itself.
var kubeletLabels = []string{
	corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceType, corev1.LabelInstanceTypeStable,
	corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	corev1.LabelWindowsBuild,
}

// NodeMayLabel says whether a node may give itself a label, as upstream's
// NodeRestriction has it.
func NodeMayLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	under := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	switch {
	case !ok:
		return true
	case under(corev1.LabelNamespaceNodeRestriction):
		return false
	case slices.Contains(kubeletLabels, key), under(corev1.LabelNamespaceSuffixKubelet), under(corev1.LabelNamespaceSuffixNode):
		return true
	}
	return !under("kubernetes.io") && !under("k8s.io")
}

// FreeLabels are the labels of a selector that a node may give itself.
func FreeLabels(s *metav1.LabelSelector) []string {
	var out []string
	for k := range s.MatchLabels {
		if NodeMayLabel(k) {
			out = append(out, k)
		}
	}
	for _, e := range s.MatchExpressions {
		if NodeMayLabel(e.Key) && !slices.Contains(out, e.Key) {
			out = append(out, e.Key)
		}
	}
	slices.Sort(out)
	return out
}

// Sure returns the pool of a node as PoolOf does, where the node can do nothing
// about it. Where it could have chosen its pool by labels that it may give
// itself, the pool is nil, and free has those labels.
func (m Membership) Sure(nodeLabels map[string]string) (pool *NodePool, free []string) {
	for _, c := range m.choices {
		open := FreeLabels(&c.pool.Spec.Selector)
		switch {
		case refused(c.selector, nodeLabels):
		case len(open) > 0:
			return nil, open
		default:
			return c.pool, nil
		}
	}
	return nil, nil
}

// refused says that a selector does not choose a node, whatever labels that
// gives itself.
func refused(s labels.Selector, nodeLabels map[string]string) bool {
	requirements, selectable := s.Requirements()
	return !selectable || slices.ContainsFunc(requirements, func(r labels.Requirement) bool {
		return !NodeMayLabel(r.Key()) && !r.Matches(labels.Set(nodeLabels))
	})
}
