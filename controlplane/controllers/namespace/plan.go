package namespace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

// remnant is what is left of one resource, and what holds it.
type remnant struct {
	resource   *schema.Resource
	count      int
	finalizers map[string]int
}

// conditions says, in upstream's words, what keeps a namespace.
func conditions(before []corev1.NamespaceCondition, left []remnant, deleteErr error, now time.Time) []corev1.NamespaceCondition {
	out := slices.Clone(before)
	set := func(t corev1.NamespaceConditionType, problem bool, reason, message string) {
		status := corev1.ConditionFalse
		if problem {
			status = corev1.ConditionTrue
		}
		out = setCondition(out, corev1.NamespaceCondition{Type: t, Status: status, Reason: reason, Message: message}, now)
	}
	set(corev1.NamespaceDeletionDiscoveryFailure, false, "ResourcesDiscovered", "All resources successfully discovered")
	set(corev1.NamespaceDeletionGVParsingFailure, false, "ParsedGroupVersions", "All legacy kube types successfully parsed")
	if deleteErr != nil {
		set(corev1.NamespaceDeletionContentFailure, true, "ContentDeletionFailed", "Failed to delete all resource types, 1 remaining: "+deleteErr.Error())
	} else {
		set(corev1.NamespaceDeletionContentFailure, false, "ContentDeleted", "All content successfully deleted, may be waiting on finalization")
	}
	var remaining []string
	held := map[string]int{}
	for _, l := range left {
		remaining = append(remaining, fmt.Sprintf("%s.%s has %d resource instances", l.resource.Plural, l.resource.Group, l.count))
		for f, n := range l.finalizers {
			held[f] += n
		}
	}
	if len(remaining) > 0 {
		set(corev1.NamespaceContentRemaining, true, "SomeResourcesRemain", "Some resources are remaining: "+strings.Join(remaining, ", "))
	} else {
		set(corev1.NamespaceContentRemaining, false, "ContentRemoved", "All content successfully removed")
	}
	var finalizers []string
	for f, n := range held {
		finalizers = append(finalizers, fmt.Sprintf("%s in %d resource instances", f, n))
	}
	slices.Sort(finalizers)
	if len(finalizers) > 0 {
		set(corev1.NamespaceFinalizersRemaining, true, "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+strings.Join(finalizers, ", "))
	} else {
		set(corev1.NamespaceFinalizersRemaining, false, "ContentHasNoFinalizers", "All content-preserving finalizers finished")
	}
	return out
}

func setCondition(in []corev1.NamespaceCondition, c corev1.NamespaceCondition, now time.Time) []corev1.NamespaceCondition {
	c.LastTransitionTime = metav1.NewTime(now)
	for i := range in {
		if in[i].Type != c.Type {
			continue
		}
		if in[i].Status == c.Status {
			c.LastTransitionTime = in[i].LastTransitionTime
		}
		in[i] = c
		return in
	}
	return append(in, c)
}

func withoutOurs(in []corev1.FinalizerName) []corev1.FinalizerName {
	return slices.DeleteFunc(slices.Clone(in), func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
}
