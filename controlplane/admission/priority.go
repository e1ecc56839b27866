package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// Priority turns the name of a pod's priority class into a number, and keeps
// the default class the only one.
type Priority struct{}

var _ registry.Admission = (*Priority)(nil)

// Handles implements registry.Handler.
func (*Priority) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb != "delete" && sub == "" && (is(r, "", "pods") || is(r, "scheduling.k8s.io", "priorityclasses"))
}

// Mutate implements registry.Admission.
func (*Priority) Mutate(_ context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	if old, ok := a.Old.(*corev1.Pod); ok && a.Verb != "create" {
		if pod.Spec.Priority == nil {
			pod.Spec.Priority = old.Spec.Priority
		}
		if pod.Spec.PreemptionPolicy == nil {
			pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
		}
		return nil
	}
	class, err := classOf(a, pod.Spec.PriorityClassName)
	if err != nil {
		return err
	}
	pod.Spec.PriorityClassName = class.Name
	if have := pod.Spec.Priority; have != nil && *have != class.Value {
		return forbidden(a, fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *have, class.Value))
	}
	pod.Spec.Priority = &class.Value
	if class.PreemptionPolicy == nil {
		return nil
	}
	if have := pod.Spec.PreemptionPolicy; have != nil && *have != *class.PreemptionPolicy {
		return forbidden(a, fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *have, *class.PreemptionPolicy))
	}
	policy := *class.PreemptionPolicy
	pod.Spec.PreemptionPolicy = &policy
	return nil
}

// class returns a copy of the class of a name, or of the default one.
func classOf(a *registry.Attributes, name string) (*schedulingv1.PriorityClass, error) {
	if name != "" {
		class, ok := client.Cached[*schedulingv1.PriorityClass](a.Cluster, schema.Key{Name: name})
		if !ok {
			return nil, forbidden(a, fmt.Errorf("no PriorityClass with name %v was found", name))
		}
		return class.DeepCopy(), nil
	}
	class := defaultClass(a)
	if class == nil {
		policy := corev1.PreemptLowerPriority
		return &schedulingv1.PriorityClass{PreemptionPolicy: &policy}, nil
	}
	return class.DeepCopy(), nil
}

// defaultClass returns the lowest class that is marked as default; nil when
// there is none.
func defaultClass(a *registry.Attributes) *schedulingv1.PriorityClass {
	var found *schedulingv1.PriorityClass
	for _, c := range client.CachedList[*schedulingv1.PriorityClass](a.Cluster, "") {
		if c.GlobalDefault && (found == nil || c.Value < found.Value) {
			found = c
		}
	}
	return found
}

// Validate implements registry.Admission.
func (*Priority) Validate(_ context.Context, a *registry.Attributes) error {
	class, ok := a.Object.(*schedulingv1.PriorityClass)
	if !ok || !class.GlobalDefault {
		return nil
	}
	if have := defaultClass(a); have != nil && have.Name != class.Name {
		return forbidden(a, fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", have.Name))
	}
	return nil
}
