package core

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PodWarnings are what the client of a new pod is told though it is valid, in
// upstream's words and order; those of a map in the order of its keys.
func PodWarnings(p *corev1.Pod) []string {
	w := warner{spec: &p.Spec, meta: &p.ObjectMeta}
	return w.all()
}

// TemplateWarnings are PodWarnings of the template of a workload.
func TemplateWarnings(t *corev1.PodTemplateSpec, at *field.Path) []string {
	w := warner{spec: &t.Spec, meta: &t.ObjectMeta, at: at}
	return w.all()
}

// ClaimWarnings are those of the spec of a PersistentVolumeClaim.
func ClaimWarnings(s *corev1.PersistentVolumeClaimSpec, at *field.Path) []string {
	w := warner{}
	w.whole(s.Resources.Requests, corev1.ResourceStorage, at.Child("resources", "requests"))
	w.whole(s.Resources.Limits, corev1.ResourceStorage, at.Child("resources", "limits"))
	return w.texts
}

// warner collects the warnings of one pod; at is nil for one that is no template.
type warner struct {
	spec  *corev1.PodSpec
	meta  *metav1.ObjectMeta
	at    *field.Path
	texts []string
}

func (w *warner) say(at *field.Path, format string, args ...any) {
	w.texts = append(w.texts, at.String()+": "+fmt.Sprintf(format, args...))
}

func (w *warner) all() []string {
	w.placement()
	w.annotations()
	w.volumes()
	w.twice()
	w.whole(w.spec.Overhead, corev1.ResourceMemory, w.at.Child("spec", "overhead"))
	w.whole(w.spec.Overhead, corev1.ResourceEphemeralStorage, w.at.Child("spec", "overhead"))
	w.containers()
	if s := w.spec.TerminationGracePeriodSeconds; s != nil && *s < 0 {
		w.say(w.at.Child("spec", "terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	w.neighbours()
	if c := w.spec.DNSConfig; c != nil {
		for i, ns := range c.Nameservers {
			w.texts = append(w.texts, validation.GetWarningsForIP(w.at.Child("spec", "dnsConfig", "nameservers").Index(i), ns)...)
		}
	}
	for i, h := range w.spec.HostAliases {
		w.texts = append(w.texts, validation.GetWarningsForIP(w.at.Child("spec", "hostAliases").Index(i).Child("ip"), h.IP)...)
	}
	return w.texts
}

// oldLabels are labels of nodes that have newer names.
var oldLabels = map[string]string{
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  `deprecated since v1.9`,
	"scheduler.alpha.kubernetes.io/preferAvoidPods": `deprecated since v1.22; use Taints and Tolerations instead`,
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

const nullSelector = "a null labelSelector results in matching no pod"

// placement: labels of nodes by their old names, and selectors of nothing.
func (w *warner) placement() {
	for _, k := range slices.Sorted(maps.Keys(w.spec.NodeSelector)) {
		if text := oldLabels[k]; text != "" {
			w.say(w.at.Child("spec", "nodeSelector").Key(k), "%s", text)
		}
	}
	if w.spec.Affinity != nil && w.spec.Affinity.NodeAffinity != nil {
		n, at := w.spec.Affinity.NodeAffinity, w.at.Child("spec", "affinity", "nodeAffinity")
		if r := n.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			for i := range r.NodeSelectorTerms {
				w.term(&r.NodeSelectorTerms[i], false, at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").Index(i))
			}
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			w.term(&n.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference, true,
				at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference"))
		}
	}
	for i, c := range w.spec.TopologySpreadConstraints {
		at := w.at.Child("spec", "topologySpreadConstraints").Index(i)
		if text := oldLabels[c.TopologyKey]; text != "" {
			w.say(at.Child("topologyKey"), "%s is %s", c.TopologyKey, text)
		}
		if c.LabelSelector == nil {
			w.say(at.Child("labelSelector"), nullSelector)
		}
	}
}

// term: values of preferences are not validated, so they are warned of.
func (w *warner) term(t *corev1.NodeSelectorTerm, values bool, at *field.Path) {
	for i, e := range t.MatchExpressions {
		at := at.Child("matchExpressions").Index(i)
		if text := oldLabels[e.Key]; text != "" {
			w.say(at.Child("key"), "%s is %s", e.Key, text)
		}
		if !values {
			continue
		}
		for j, v := range e.Values {
			for _, text := range validation.IsValidLabelValue(v) {
				w.say(at.Child("values").Index(j), "%s is invalid, %s", v, text)
			}
		}
	}
}

func (w *warner) annotations() {
	at := w.at.Child("metadata", "annotations")
	for _, a := range []struct{ key, text string }{
		{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
		{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
		{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	} {
		if _, ok := w.meta.Annotations[a.key]; ok {
			w.say(at.Key(a.key), "%s", a.text)
		}
	}
}

// twice: what lists say a second time.
func (w *warner) twice() {
	seen := map[string]bool{}
	for i, h := range w.spec.HostAliases {
		if seen[h.IP] {
			w.say(w.at.Child("spec", "hostAliases").Index(i).Child("ip"), "duplicate ip %q", h.IP)
		}
		seen[h.IP] = true
	}
	at := w.at.Child("spec", "imagePullSecrets")
	clear(seen)
	for i, s := range w.spec.ImagePullSecrets {
		if seen[s.Name] {
			w.say(at.Index(i).Child("name"), "duplicate name %q", s.Name)
		}
		seen[s.Name] = true
	}
	for i, s := range w.spec.ImagePullSecrets {
		if s.Name == "" {
			w.say(at.Index(i).Child("name"), "invalid empty name %q", s.Name)
		}
	}
}

// whole: there is no part of a byte.
func (w *warner) whole(list corev1.ResourceList, name corev1.ResourceName, at *field.Path) {
	if q, ok := list[name]; ok && fractional(q) {
		w.say(at.Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
	}
}

func fractional(q resource.Quantity) bool { return q.MilliValue()%1000 != 0 }

// neighbours: affinities to no pod.
func (w *warner) neighbours() {
	a := w.spec.Affinity
	if a == nil {
		return
	}
	terms := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, name string) {
		at := w.at.Child("spec", "affinity", name)
		for i := range required {
			if required[i].LabelSelector == nil {
				w.say(at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i).Child("labelSelector"), nullSelector)
			}
		}
		for i := range preferred {
			if preferred[i].PodAffinityTerm.LabelSelector == nil {
				w.say(at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("podAffinityTerm", "labelSelector"), nullSelector)
			}
		}
	}
	if p := a.PodAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, "podAffinity")
	}
	if p := a.PodAntiAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, "podAntiAffinity")
	}
}
