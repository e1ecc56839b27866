package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/features"
	helper "k8s.io/component-helpers/resource"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// TopologyLabels tells a pod the zone and region of the node that it is bound
// to, in its labels, so that it can read them through the downward API.
type TopologyLabels struct{ mutates }

var _ registry.Admission = (*TopologyLabels)(nil)

// Handles implements registry.Handler.
func (*TopologyLabels) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "create" && (sub == "" || sub == "binding") && is(r, "", "pods")
}

// Mutate implements registry.Admission.
func (*TopologyLabels) Mutate(_ context.Context, a *registry.Attributes) error {
	node := ""
	switch o := a.Object.(type) {
	case *corev1.Pod:
		node = o.Spec.NodeName
	case *corev1.Binding:
		if o.Target.Kind == "Node" {
			node = o.Target.Name
		}
	}
	if node == "" {
		return nil
	}
	n, ok := client.Cached[*corev1.Node](a.Cluster, schema.Key{Name: node})
	if !ok {
		return nil // as upstream: what is bound to no node shows that itself
	}
	labels := a.Object.GetLabels()
	for _, k := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		v, ok := n.Labels[k]
		if !ok {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[k] = v
	}
	a.Object.SetLabels(labels)
	return nil
}

// resized returns a bound pod whose spec a write changes, and its node.
func resized(a *registry.Attributes) (pod, old *corev1.Pod, node *corev1.Node, err error) {
	pod, ok := a.Object.(*corev1.Pod)
	old, was := a.Old.(*corev1.Pod)
	if !ok || !was || pod.Spec.NodeName == "" || pod.Generation == old.Generation {
		return nil, nil, nil, nil
	}
	node, ok = client.Cached[*corev1.Node](a.Cluster, schema.Key{Name: pod.Spec.NodeName})
	if !ok {
		return pod, old, nil, forbidden(a, fmt.Errorf("node %q not found", pod.Spec.NodeName))
	}
	return pod, old, node, nil
}

// PodResize refuses to resize a pod to what its node cannot give.
type PodResize struct{ validates }

var _ registry.Admission = (*PodResize)(nil)

// Handles implements registry.Handler.
func (*PodResize) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "update" && sub == "resize" && is(r, "", "pods")
}

// Validate implements registry.Admission.
func (*PodResize) Validate(_ context.Context, a *registry.Attributes) error {
	pod, _, node, err := resized(a)
	if err != nil || pod == nil {
		return err
	}
	if os, ok := node.Labels[corev1.LabelOSStable]; ok && os != "linux" {
		return because(forbidden(a, fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, os)), "UnsupportedPlatform")
	}
	requests := helper.PodRequests(pod, helper.PodResourcesOptions{})
	var over []string
	if want, have := requests.Cpu(), node.Status.Allocatable.Cpu(); want.Cmp(*have) > 0 {
		over = append(over, fmt.Sprintf("cpu, requested: %d, allocatable: %d", want.MilliValue(), have.MilliValue()))
	}
	if want, have := requests.Memory(), node.Status.Allocatable.Memory(); want.Cmp(*have) > 0 {
		over = append(over, fmt.Sprintf("memory, requested: %d, allocatable: %d", want.Value(), have.Value()))
	}
	if len(over) > 0 {
		return because(forbidden(a, fmt.Errorf("node didn't have enough allocatable resources: %s", strings.Join(over, "; "))), "NodeCapacity")
	}
	return nil
}

// because adds a cause to a refusal.
func because(err error, cause metav1.CauseType) error {
	var status *apierrors.StatusError
	if errors.As(err, &status) && status.ErrStatus.Details != nil {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	}
	return err
}

// DeclaredFeatures refuses changes of a pod that need what its node has not
// said it can do: the plugin NodeDeclaredFeatureValidator.
type DeclaredFeatures struct {
	validates
	framework *nodedeclaredfeatures.Framework
	version   *version.Version
}

var _ registry.Admission = (*DeclaredFeatures)(nil)

func newDeclaredFeatures() *DeclaredFeatures {
	return &DeclaredFeatures{framework: nodedeclaredfeatures.New(features.AllFeatures), version: version.MustParseSemantic("1.36.4")}
}

// Handles implements registry.Handler.
func (*DeclaredFeatures) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "update" && (sub == "" || sub == "resize") && is(r, "", "pods")
}

// Validate implements registry.Admission.
func (p *DeclaredFeatures) Validate(_ context.Context, a *registry.Attributes) error {
	pod, old, node, missing := resized(a)
	if pod == nil {
		return nil
	}
	needs, err := p.framework.InferForPodUpdate(
		&nodedeclaredfeatures.PodInfo{Spec: &old.Spec, Status: &old.Status},
		&nodedeclaredfeatures.PodInfo{Spec: &pod.Spec, Status: &pod.Status}, p.version)
	switch {
	case err != nil:
		return forbidden(a, fmt.Errorf("failed to infer pod capability requirements: %w", err))
	case needs.IsEmpty():
		return nil
	case missing != nil:
		return missing
	}
	res, err := p.framework.MatchNode(needs, node)
	if err != nil {
		return forbidden(a, fmt.Errorf("failed to match pod requirements against node %q: %w", node.Name, err))
	}
	if !res.IsMatch {
		return forbidden(a, fmt.Errorf("pod update requires features %s which are not available on node %q", strings.Join(res.UnsatisfiedRequirements, ", "), node.Name))
	}
	return nil
}
