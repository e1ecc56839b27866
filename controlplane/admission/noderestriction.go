package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/node"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// NodeRestriction keeps a node to itself and its pods where the authorizer
// cannot, because it depends on what is written: a node that was taken over
// must not be able to reach for others.
type NodeRestriction struct {
	validates
	// Authorizer may allow tokens for audiences that no volume asks for.
	Authorizer authorizer.Authorizer
}

var _ registry.Admission = (*NodeRestriction)(nil)

// Handles implements registry.Handler.
func (*NodeRestriction) Handles(verb string, r *schema.Resource, _ string) bool {
	if verb == "connect" {
		return false
	}
	switch r.Group {
	case "":
		return r.Plural == "pods" || r.Plural == "nodes" || r.Plural == "persistentvolumeclaims" || r.Plural == "serviceaccounts"
	case "coordination.k8s.io":
		return r.Plural == "leases"
	case "storage.k8s.io":
		return r.Plural == "csinodes"
	case "resource.k8s.io":
		return r.Plural == "resourceslices"
	case "certificates.k8s.io":
		return r.Plural == "certificatesigningrequests"
	}
	return false
}

// Validate implements registry.Admission.
func (p *NodeRestriction) Validate(ctx context.Context, a *registry.Attributes) error {
	if a.Resource.Group == "" && a.Resource.Plural == "nodes" && a.Verb == "create" && a.Subresource == "" {
		if why := identity.ReservedNode(nameOf(a)); why != "" { // whoever makes it
			return forbidden(a, errors.New(why))
		}
	}
	name, ok := identity.NodeName(a.User)
	if !ok {
		return nil
	}
	var err error
	switch a.Resource.Plural {
	case "leases":
		err = checkLease(a, name)
	case "nodes":
		err = checkNode(a, name)
	case "pods":
		err = checkPod(a, name)
	case "persistentvolumeclaims":
		err = checkClaimStatus(a, name)
	case "serviceaccounts":
		err = p.checkToken(ctx, a, name)
	case "csinodes":
		if nameOf(a) != name {
			err = fmt.Errorf("can only access CSINode with the same name as the requesting node")
		}
	case "resourceslices":
		err = checkSlice(a, name)
	case "certificatesigningrequests":
		err = checkNodeRequest(a, name)
	}
	if err != nil {
		return forbidden(a, err)
	}
	return nil
}

func checkLease(a *registry.Attributes, name string) error {
	if a.Key.Namespace != node.LeaseNamespace {
		return fmt.Errorf("can only access leases in the %q system namespace", node.LeaseNamespace)
	}
	if nameOf(a) != name {
		return fmt.Errorf("can only access node lease with the same name as the requesting node")
	}
	return nil
}

func checkNode(a *registry.Attributes, name string) error {
	if nameOf(a) != name {
		return fmt.Errorf("node %q is not allowed to modify node %q", name, nameOf(a))
	}
	object, ok := a.Object.(*corev1.Node)
	if !ok {
		return nil
	}
	old, ok := a.Old.(*corev1.Node)
	if bad := orders(object, old); len(bad) > 0 {
		return fmt.Errorf("node %q is not allowed to modify the annotations: %s", name, strings.Join(bad, ", "))
	}
	if !ok {
		if object.Spec.ConfigSource != nil { //nolint:staticcheck // upstream refuses what is gone, too
			return fmt.Errorf("node %q is not allowed to create pods with a non-nil configSource", name)
		}
		if bad := restricted(object.Labels, nil); len(bad) > 0 {
			return fmt.Errorf("node %q is not allowed to set the following labels: %s", name, strings.Join(bad, ", "))
		}
		return nil
	}
	switch {
	//nolint:staticcheck // upstream refuses what is gone, too
	case object.Spec.ConfigSource != nil && !equality.Semantic.DeepEqual(object.Spec.ConfigSource, old.Spec.ConfigSource):
		return fmt.Errorf("node %q is not allowed to update configSource to a new non-nil configSource", name)
	case !equality.Semantic.DeepEqual(object.Spec.Taints, old.Spec.Taints):
		return fmt.Errorf("node %q is not allowed to modify taints", name)
	case !equality.Semantic.DeepEqual(object.OwnerReferences, old.OwnerReferences):
		return fmt.Errorf("node %q is not allowed to modify ownerReferences", name)
	}
	if bad := restricted(object.Labels, old.Labels); len(bad) > 0 {
		return fmt.Errorf("is not allowed to modify labels: %s", strings.Join(bad, ", "))
	}
	return nil
}

// restricted returns the changed labels that steer workloads and are therefore
// not a node's to change.
func restricted(labels, old map[string]string) []string {
	var bad []string
	for _, k := range slices.Sorted(maps.Keys(changed(labels, old))) {
		if !v1alpha1.NodeMayLabel(k) {
			bad = append(bad, k)
		}
	}
	return bad
}

// orders returns the changed annotations of our own domain by which others tell
// a node what to do; old is nil for a new node.
func orders(object, old *corev1.Node) []string {
	var before map[string]string
	if old != nil {
		before = old.Annotations
	}
	var bad []string
	for _, k := range slices.Sorted(maps.Keys(changed(object.Annotations, before))) {
		domain, _, _ := strings.Cut(k, "/")
		if domain == v1alpha1.GroupVersion.Group && !slices.Contains(v1alpha1.AgentAnnotations, k) {
			bad = append(bad, k)
		}
	}
	return bad
}

func changed(a, b map[string]string) map[string]bool {
	out := map[string]bool{}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			out[k] = true
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			out[k] = true
		}
	}
	return out
}

func checkPod(a *registry.Attributes, name string) error {
	old, _ := a.Old.(*corev1.Pod)
	switch {
	case a.Subresource == "eviction":
		return checkEviction(a, name)
	case a.Subresource == "status":
		pod, ok := a.Object.(*corev1.Pod)
		if old == nil || old.Spec.NodeName != name {
			return fmt.Errorf("node %q can only update pod status for pods with spec.nodeName set to itself", name)
		}
		if ok && !maps.Equal(pod.Labels, old.Labels) {
			return fmt.Errorf("node %q cannot update labels through pod status", name)
		}
		if ok && !equality.Semantic.DeepEqual(pod.Status.ResourceClaimStatuses, old.Status.ResourceClaimStatuses) {
			return fmt.Errorf("node %q cannot update resource claim statues", name)
		}
		if ok && !equality.Semantic.DeepEqual(pod.Status.ExtendedResourceClaimStatus, old.Status.ExtendedResourceClaimStatus) {
			return fmt.Errorf("node %q cannot update extended resource claim status", name)
		}
		return nil
	case a.Subresource != "":
		return fmt.Errorf("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", a.Subresource)
	case a.Verb == "delete":
		if old == nil || old.Spec.NodeName != name {
			return fmt.Errorf("node %q can only delete pods with spec.nodeName set to itself", name)
		}
		return nil
	case a.Verb == "create":
		return checkMirrorPod(a, name)
	}
	return fmt.Errorf("unexpected operation %q, node %q can only create and delete mirror pods", strings.ToUpper(a.Verb), name)
}

func checkEviction(a *registry.Attributes, name string) error {
	pod, ok := client.Cached[*corev1.Pod](a.Cluster, a.Key)
	if !ok || pod.Spec.NodeName != name {
		return fmt.Errorf("node %s can only evict pods with spec.nodeName set to itself", name)
	}
	return nil
}

func checkMirrorPod(a *registry.Attributes, name string) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("unexpected type %T", a.Object)
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
		return fmt.Errorf("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, name)
	}
	if pod.Spec.NodeName != name {
		return fmt.Errorf("node %q can only create pods with spec.nodeName set to itself", name)
	}
	if len(pod.OwnerReferences) > 1 {
		return fmt.Errorf("node %q can only create pods with a single owner reference set to itself", name)
	}
	if len(pod.OwnerReferences) == 0 {
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", name)
	}
	owner := pod.OwnerReferences[0]
	switch {
	case owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != name:
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", name)
	case owner.Controller == nil || !*owner.Controller:
		return fmt.Errorf("node %q can only create pods with a controller owner reference set to itself", name)
	case owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion:
		return fmt.Errorf("node %q must not set blockOwnerDeletion on an owner reference", name)
	}
	self, ok := client.Cached[*corev1.Node](a.Cluster, schema.Key{Name: name})
	if !ok {
		return fmt.Errorf("error looking up node %s to verify uid: node not found", name)
	}
	if owner.UID != self.UID {
		return fmt.Errorf("node %s UID mismatch: expected %s got %s", name, owner.UID, self.UID)
	}
	if what := apiReference(pod); what != "" {
		return fmt.Errorf("node %q can not create pods that reference %s", name, what)
	}
	return nil
}

// apiReference names a kind of API object that a pod refers to: a mirror pod
// with one would let its node read it.
func apiReference(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.Secret != nil:
			return "secrets"
		case v.ConfigMap != nil:
			return "configmaps"
		case v.PersistentVolumeClaim != nil || v.Ephemeral != nil:
			return "persistentvolumeclaims"
		case v.Projected != nil:
			return "volumes with projected sources"
		case v.CSI != nil || v.ISCSI != nil || v.RBD != nil || v.CephFS != nil || v.AzureFile != nil || v.FlexVolume != nil:
			return "secrets"
		}
	}
	if len(pod.Spec.ImagePullSecrets) > 0 {
		return "secrets"
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			for _, e := range c.EnvFrom {
				if e.SecretRef != nil || e.ConfigMapRef != nil {
					return "secrets or configmaps"
				}
			}
			for _, e := range c.Env {
				if e.ValueFrom != nil && (e.ValueFrom.SecretKeyRef != nil || e.ValueFrom.ConfigMapKeyRef != nil) {
					return "secrets or configmaps"
				}
			}
		}
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return "resourceclaims"
	}
	return ""
}
