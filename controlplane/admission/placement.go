package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// The annotations of a namespace that say where its pods may run.
const (
	selectorAnnotation   = "scheduler.alpha.kubernetes.io/node-selector"
	defaultTolerations   = "scheduler.alpha.kubernetes.io/defaultTolerations"
	tolerationsWhitelist = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
	// clusterSelector is the key of the selector for namespaces without one.
	clusterSelector = "clusterDefaultNodeSelector"
)

// NodeSelectors keeps the pods of a namespace to some nodes: the plugin
// PodNodeSelector, off by default.
type NodeSelectors struct {
	// Selectors are label selectors ("a=b,c=d") by namespace that its pods may
	// use at most, and under "clusterDefaultNodeSelector" the one for
	// namespaces that have no annotation.
	Selectors map[string]string
}

var _ registry.Admission = (*NodeSelectors)(nil)

// Handles implements registry.Handler.
func (*NodeSelectors) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "create" && sub == "" && is(r, "", "pods")
}

// Mutate implements registry.Admission.
func (p *NodeSelectors) Mutate(ctx context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	want, err := p.selector(a)
	if err != nil {
		return err
	}
	if labels.Conflicts(want, labels.Set(pod.Spec.NodeSelector)) {
		return forbidden(a, errors.New("pod node label selector conflicts with its namespace node label selector"))
	}
	if len(want) > 0 {
		pod.Spec.NodeSelector = labels.Merge(want, labels.Set(pod.Spec.NodeSelector))
	}
	return p.Validate(ctx, a)
}

// Validate implements registry.Admission.
func (p *NodeSelectors) Validate(_ context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	want, err := p.selector(a)
	if err != nil {
		return err
	}
	if labels.Conflicts(want, labels.Set(pod.Spec.NodeSelector)) {
		return forbidden(a, errors.New("pod node label selector conflicts with its namespace node label selector"))
	}
	most, err := labels.ConvertSelectorToLabelsMap(p.Selectors[a.Key.Namespace])
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	for k, v := range pod.Spec.NodeSelector {
		if have, ok := most[k]; len(most) > 0 && (!ok || have != v) {
			return forbidden(a, errors.New("pod node label selector labels conflict with its namespace whitelist"))
		}
	}
	return nil
}

// selector is the one of the namespace, or the cluster's.
func (p *NodeSelectors) selector(a *registry.Attributes) (labels.Set, error) {
	text := p.Selectors[clusterSelector]
	if ns, ok := client.Cached[*corev1.Namespace](a.Cluster, schema.Key{Name: a.Key.Namespace}); ok {
		if s, ok := ns.Annotations[selectorAnnotation]; ok {
			text = s
		}
	}
	set, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("read node selector of namespace %s: %w", a.Key.Namespace, err))
	}
	return set, nil
}

// TolerationRestriction gives the pods of a namespace its tolerations, and
// refuses others than it allows: the plugin PodTolerationRestriction, off by
// default.
type TolerationRestriction struct {
	// Default and Whitelist are for namespaces that have no annotation.
	Default, Whitelist []corev1.Toleration
}

var _ registry.Admission = (*TolerationRestriction)(nil)

// Handles implements registry.Handler.
func (*TolerationRestriction) Handles(verb string, r *schema.Resource, sub string) bool {
	return (verb == "create" || verb == "update") && sub == "" && is(r, "", "pods")
}

// Mutate implements registry.Admission.
func (p *TolerationRestriction) Mutate(ctx context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	var extra []corev1.Toleration
	if a.Verb == "create" {
		own, found, err := namespaceTolerations(a, defaultTolerations)
		if err != nil {
			return err
		}
		if extra = own; !found {
			extra = p.Default
		}
	}
	if !asksNothing(pod) {
		extra = append(extra[:len(extra):len(extra)], corev1.Toleration{
			Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	if len(extra) > 0 {
		pod.Spec.Tolerations = mergeTolerations(pod.Spec.Tolerations, extra)
	}
	return p.Validate(ctx, a)
}

// asksNothing says whether a pod is of the class BestEffort.
func asksNothing(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, c := range list {
			for _, r := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
				if !r.Cpu().IsZero() || !r.Memory().IsZero() {
					return false
				}
			}
		}
	}
	return true
}

// Validate implements registry.Admission.
func (p *TolerationRestriction) Validate(_ context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || len(pod.Spec.Tolerations) == 0 {
		return nil
	}
	allowed, found, err := namespaceTolerations(a, tolerationsWhitelist)
	if err != nil {
		return err
	}
	scope := "namespace"
	if !found {
		allowed, scope = p.Whitelist, "cluster"
	}
	if len(allowed) == 0 {
		return nil
	}
	for _, t := range pod.Spec.Tolerations {
		ok := false
		for _, w := range allowed {
			ok = ok || covers(w, t)
		}
		if !ok {
			return apierrors.NewInternalError(fmt.Errorf("pod tolerations (possibly merged with namespace default tolerations) conflict with its %s whitelist", scope))
		}
	}
	return nil
}

// namespaceTolerations reads an annotation; found also where it is empty.
func namespaceTolerations(a *registry.Attributes, annotation string) (list []corev1.Toleration, found bool, err error) {
	ns, ok := client.Cached[*corev1.Namespace](a.Cluster, schema.Key{Name: a.Key.Namespace})
	if !ok {
		return nil, false, apierrors.NewNotFound(corev1.Resource("namespaces"), a.Key.Namespace)
	}
	text, ok := ns.Annotations[annotation]
	if !ok || text == "" {
		return nil, ok, nil
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, true, apierrors.NewInternalError(fmt.Errorf("read annotation %s of namespace %s: %w", annotation, ns.Name, err))
	}
	return list, true, nil
}

// mergeTolerations joins two lists and leaves out what another covers.
func mergeTolerations(first, second []corev1.Toleration) []corev1.Toleration {
	all := append(first[:len(first):len(first)], second...)
	var out []corev1.Toleration
next:
	for i, t := range all {
		for _, have := range out {
			if covers(have, t) {
				continue next
			}
		}
		for _, later := range all[i+1:] {
			if !equality.Semantic.DeepEqual(t, later) && covers(later, t) {
				continue next
			}
		}
		out = append(out, t)
	}
	return out
}

// covers says whether a toleration tolerates all that another does.
func covers(all, t corev1.Toleration) bool {
	if equality.Semantic.DeepEqual(all, t) {
		return true
	}
	if t.Key != all.Key && (all.Key != "" || all.Operator != corev1.TolerationOpExists) {
		return false
	}
	if t.Effect != all.Effect && all.Effect != "" {
		return false
	}
	if all.Effect == corev1.TaintEffectNoExecute && all.TolerationSeconds != nil &&
		(t.TolerationSeconds == nil || *t.TolerationSeconds > *all.TolerationSeconds) {
		return false
	}
	switch all.Operator {
	case corev1.TolerationOpEqual, "":
		return t.Operator == corev1.TolerationOpEqual && t.Value == all.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
