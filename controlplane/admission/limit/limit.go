// Package limit holds pods and claims against the LimitRanges of their
// namespace, and gives containers their default requests and limits: the plugin
// LimitRanger.
//
// It watches nothing and owns nothing; texts are upstream's.
package limit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// annotation says what the plugin has set on a pod.
const annotation = "kubernetes.io/limit-ranger"

// Ranger is the plugin LimitRanger.
type Ranger struct{}

var _ registry.Admission = (*Ranger)(nil)

// Handles implements registry.Handler. The containers of a pod change by
// resize only, once it exists.
func (*Ranger) Handles(verb string, r *schema.Resource, sub string) bool {
	if r.Group != "" {
		return false
	}
	switch {
	case r.Plural == "pods":
		return verb == "create" && sub == "" || verb == "update" && sub == "resize"
	case r.Plural == "persistentvolumeclaims":
		return (verb == "create" || verb == "update") && sub == ""
	}
	return false
}

func ranges(a *registry.Attributes) []*corev1.LimitRange {
	if a.Old != nil && a.Old.GetDeletionTimestamp() != nil {
		return nil
	}
	return client.CachedList[*corev1.LimitRange](a.Cluster, a.Key.Namespace)
}

// Mutate implements registry.Admission.
func (*Ranger) Mutate(_ context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	for _, r := range ranges(a) {
		setDefaults(pod, r)
	}
	return nil
}

// Validate implements registry.Admission.
func (*Ranger) Validate(_ context.Context, a *registry.Attributes) error {
	for _, r := range ranges(a) {
		var errs []error
		switch o := a.Object.(type) {
		case *corev1.Pod:
			errs = checkPod(o, r)
		case *corev1.PersistentVolumeClaim:
			errs = checkClaim(o, r)
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			name := a.Object.GetName()
			if name == "" {
				name = a.Object.GetGenerateName()
			}
			return apierrors.NewForbidden(a.Resource.GroupResource(), name, err)
		}
	}
	return nil
}

// setDefaults gives containers the defaults of a range, and says so.
func setDefaults(pod *corev1.Pod, r *corev1.LimitRange) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, l := range r.Spec.Limits {
		if l.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, l.DefaultRequest)
			maps.Copy(limits, l.Default)
		}
	}
	var said []string
	for i := range pod.Spec.Containers {
		said = append(said, merge(&pod.Spec.Containers[i], requests, limits, "container")...)
	}
	for i := range pod.Spec.InitContainers {
		said = append(said, merge(&pod.Spec.InitContainers[i], requests, limits, "init container")...)
	}
	if len(said) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotation] = "LimitRanger plugin set: " + strings.Join(said, "; ")
}

func merge(c *corev1.Container, requests, limits corev1.ResourceList, what string) []string {
	fill := func(have *corev1.ResourceList, from corev1.ResourceList) []string {
		var set []string
		for k, v := range from {
			if _, ok := (*have)[k]; ok {
				continue
			}
			if *have == nil {
				*have = corev1.ResourceList{}
			}
			(*have)[k] = v.DeepCopy()
			set = append(set, string(k))
		}
		slices.Sort(set)
		return set
	}
	// Limits first: a range without default requests has no effect on them.
	setLimits, setRequests := fill(&c.Resources.Limits, limits), fill(&c.Resources.Requests, requests)
	var said []string
	if len(setRequests) > 0 {
		said = append(said, fmt.Sprintf("%s request for %s %s", strings.Join(setRequests, ", "), what, c.Name))
	}
	if len(setLimits) > 0 {
		said = append(said, fmt.Sprintf("%s limit for %s %s", strings.Join(setLimits, ", "), what, c.Name))
	}
	return said
}
