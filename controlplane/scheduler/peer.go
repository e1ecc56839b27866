package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// peerRules are what a pod demands of where other pods are: required
// inter-pod affinity and anti-affinity, and spread that must be kept.
type peerRules struct {
	affinity, anti []peerTerm
	spread         []spreadRule
}

// peerTerm is one required term, of a pod or against others.
type peerTerm struct {
	key        string
	namespaces []string // together with those that inNamespaces selects
	selector   labels.Selector
	// inNamespaces selects namespaces by their labels; it selects none when the
	// term names none that way.
	inNamespaces labels.Selector
}

// spreadRule is a topologySpreadConstraint with DoNotSchedule.
type spreadRule struct {
	key                 string
	maxSkew, minDomains int
	selector            labels.Selector
	// byAffinity and byTaints leave nodes out on which the pod could not be.
	byAffinity, byTaints bool
}

// peerRulesOf returns the rules of a pod; nil when it has none, as nearly all.
func peerRulesOf(pod *corev1.Pod) *peerRules {
	r := &peerRules{}
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			r.affinity = peerTerms(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		if a.PodAntiAffinity != nil {
			r.anti = peerTerms(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		s := spreadRule{
			key: c.TopologyKey, maxSkew: int(c.MaxSkew), minDomains: 1, selector: selectorOf(c.LabelSelector),
			byAffinity: c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor,
			byTaints:   c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
		}
		if c.MinDomains != nil {
			s.minDomains = int(*c.MinDomains)
		}
		r.spread = append(r.spread, s)
	}
	if len(r.affinity)+len(r.anti)+len(r.spread) == 0 {
		return nil
	}
	return r
}

// peerTerms reads terms. matchLabelKeys are in the selectors already: the
// registry has put them there when the pod was made (KEP-3633).
func peerTerms(pod *corev1.Pod, terms []corev1.PodAffinityTerm) []peerTerm {
	out := make([]peerTerm, 0, len(terms))
	for i := range terms {
		t := &terms[i]
		p := peerTerm{key: t.TopologyKey, namespaces: t.Namespaces, selector: selectorOf(t.LabelSelector), inNamespaces: selectorOf(t.NamespaceSelector)}
		if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
			p.namespaces = []string{pod.Namespace}
		}
		out = append(out, p)
	}
	return out
}

// selectorOf reads a selector. None, and one that cannot be read, select
// nothing; an empty one selects everything.
func selectorOf(s *metav1.LabelSelector) labels.Selector {
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return out
}

// matches says whether a pod is one that the term is about.
func (t *peerTerm) matches(pod *corev1.Pod, namespaces map[string]labels.Set) bool {
	if !slices.Contains(t.namespaces, pod.Namespace) && !t.inNamespaces.Matches(namespaces[pod.Namespace]) {
		return false
	}
	return t.selector.Matches(labels.Set(pod.Labels))
}

// domain is one place of a topology: a zone, a host.
type domain struct{ key, value string }

func domainOf(n *nodeInfo, key string) (domain, bool) {
	if n.node == nil {
		return domain{}, false
	}
	v, ok := n.node.Labels[key]
	return domain{key, v}, ok
}
