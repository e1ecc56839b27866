package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	lists "k8s.io/apiserver/pkg/quota/v1"
	helper "k8s.io/component-helpers/resource"

	"github.com/writ-os/writ/schema"
)

// pods are charged with what they request while they have not ended, and
// counted as long as they are there.
var pods = &Evaluator{
	Resource: corev1.Resource("pods"),
	names:    podName,
	scope:    podScope,
	usage:    func(o schema.Object, now time.Time) corev1.ResourceList { return podUsage(o.(*corev1.Pod), now) },
	require:  podRequire,
	charges: func(verb, sub string, o, old schema.Object) bool {
		switch {
		case sub == "resize":
			return verb == "update"
		case sub != "":
			return false
		case verb == "update": // a deadline moves it from one scope to another
			a, ok := o.(*corev1.Pod)
			b, was := old.(*corev1.Pod)
			return ok && was && terminating(a) != terminating(b)
		}
		return verb == "create"
	},
}

var podNames = map[corev1.ResourceName]bool{
	CountName(corev1.Resource("pods")): true, corev1.ResourcePods: true,
	corev1.ResourceCPU: true, corev1.ResourceMemory: true, corev1.ResourceEphemeralStorage: true,
	corev1.ResourceRequestsCPU: true, corev1.ResourceRequestsMemory: true, corev1.ResourceRequestsEphemeralStorage: true,
	corev1.ResourceLimitsCPU: true, corev1.ResourceLimitsMemory: true, corev1.ResourceLimitsEphemeralStorage: true,
}

func podName(n corev1.ResourceName) bool {
	s := string(n)
	return podNames[n] || strings.HasPrefix(s, corev1.ResourceHugePagesPrefix) || strings.HasPrefix(s, corev1.ResourceRequestsHugePagesPrefix) ||
		strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix) && (!native(n) || strings.HasPrefix(s, deviceClassPrefix))
}

// deviceClassPrefix begins the names of extended resources that device classes
// stand for.
const deviceClassPrefix = corev1.DefaultResourceRequestsPrefix + "deviceclass.resource.kubernetes.io/"

func native(n corev1.ResourceName) bool {
	return !strings.Contains(string(n), "/") || strings.Contains(string(n), corev1.ResourceDefaultNamespacePrefix)
}

// Extended says whether a name is that of an extended resource: a device, say.
func Extended(n corev1.ResourceName) bool {
	if native(n) || strings.HasPrefix(string(n), corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(n))) == 0
}

func podScope(s corev1.ScopedResourceSelectorRequirement, o schema.Object) bool {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return false
	}
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return terminating(pod)
	case corev1.ResourceQuotaScopeNotTerminating:
		return !terminating(pod)
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		return matchValue(s, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossNamespace(pod)
	}
	return false
}

func terminating(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

// bestEffort: no container asks for CPU or memory, which the class in the
// status says too, once it is there.
func bestEffort(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSBestEffort
	}
	asks := func(r corev1.ResourceList) bool {
		for _, n := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := r[n]; ok && q.Sign() > 0 {
				return true
			}
		}
		return false
	}
	if r := pod.Spec.Resources; r != nil && (asks(r.Requests) || asks(r.Limits)) {
		return false
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, c := range list {
			if asks(c.Resources.Requests) || asks(c.Resources.Limits) {
				return false
			}
		}
	}
	return true
}

func crossNamespace(pod *corev1.Pod) bool {
	if pod.Spec.Affinity == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	var weighted []corev1.WeightedPodAffinityTerm
	if a := pod.Spec.Affinity.PodAffinity; a != nil {
		terms, weighted = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...), append(weighted, a.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if a := pod.Spec.Affinity.PodAntiAffinity; a != nil {
		terms, weighted = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...), append(weighted, a.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for _, w := range weighted {
		terms = append(terms, w.PodAffinityTerm)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}

// Ended says whether a pod is no longer charged: it has run to its end, or its
// node does not let go of it.
func Ended(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return false
	}
	return now.After(pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second))
}

func podUsage(pod *corev1.Pod, now time.Time) corev1.ResourceList {
	out := corev1.ResourceList{CountName(corev1.Resource("pods")): one()}
	if Ended(pod, now) {
		return out
	}
	o := helper.PodResourcesOptions{UseStatusResources: true}
	return lists.Add(out, compute(helper.PodRequests(pod, o), helper.PodLimits(pod, o)))
}

// compute names requests and limits as quotas do.
func compute(requests, limits corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{corev1.ResourcePods: one()}
	for _, n := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := requests[n]; ok {
			out[n], out[corev1.DefaultResourceRequestsPrefix+n] = q, q
		}
		if q, ok := limits[n]; ok {
			out["limits."+n] = q
		}
	}
	for n, q := range requests {
		switch {
		case strings.HasPrefix(string(n), corev1.ResourceHugePagesPrefix):
			out[n], out[corev1.DefaultResourceRequestsPrefix+n] = q, q
		case Extended(n) || strings.HasPrefix(string(n), "deviceclass.resource.kubernetes.io/"):
			out[corev1.DefaultResourceRequestsPrefix+n] = q // nobody gets more of a device than is there
		}
	}
	return out
}

// named are those that every container must have because a quota counts them.
// That couples a quota with validation, and no others may be added.
var named = map[corev1.ResourceName]bool{
	corev1.ResourceCPU: true, corev1.ResourceMemory: true,
	corev1.ResourceRequestsCPU: true, corev1.ResourceRequestsMemory: true,
	corev1.ResourceLimitsCPU: true, corev1.ResourceLimitsMemory: true,
}

func podRequire(names []corev1.ResourceName, o schema.Object) error {
	pod, ok := o.(*corev1.Pod)
	if !ok || helper.IsPodLevelResourcesSet(pod) {
		return nil
	}
	missing := map[corev1.ResourceName]map[string]bool{}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, c := range list {
			has := compute(c.Resources.Requests, c.Resources.Limits)
			for _, n := range names {
				if _, ok := has[n]; ok || !named[n] {
					continue
				}
				if missing[n] == nil {
					missing[n] = map[string]bool{}
				}
				missing[n][c.Name] = true
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(missing)) {
		parts = append(parts, fmt.Sprintf("%s for: %s", n, strings.Join(slices.Sorted(maps.Keys(missing[n])), ",")))
	}
	return fmt.Errorf("must specify %s", strings.Join(parts, "; "))
}
