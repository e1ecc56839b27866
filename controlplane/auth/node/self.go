package node

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// pod decides about pods: a node sees those that are bound to it, writes their
// status, and makes and deletes its mirror pods.
func (a *Authorizer) pod(node string, attrs authorizer.Attributes) string {
	switch attrs.GetSubresource() {
	case "":
	case "status":
		if oneOf(attrs.GetVerb(), "update", "patch") {
			return "" // which pod's, NodeRestriction knows
		}
		return silent
	case "eviction":
		if attrs.GetVerb() == "create" {
			return ""
		}
		return silent
	default:
		return silent
	}
	switch attrs.GetVerb() {
	case "create", "delete":
		return "" // mirror pods of its own: NodeRestriction
	case "get":
		return relatedIf(node, attrs, func() bool {
			pod, ok := client.Cached[*corev1.Pod](a.cache, schema.Key{Namespace: attrs.GetNamespace(), Name: attrs.GetName()})
			return ok && pod.Spec.NodeName == node
		})
	case "list", "watch":
		if selects(attrs, "spec.nodeName", node) || attrs.GetName() != "" && a.pod(node, getOf(attrs)) == "" {
			return ""
		}
		return "can only list/watch pods with spec.nodeName field selector"
	}
	return silent
}

// getOf is the same request as a get of the one object.
func getOf(attrs authorizer.Attributes) authorizer.Attributes {
	return authorizer.AttributesRecord{User: attrs.GetUser(), Verb: "get", Namespace: attrs.GetNamespace(), Name: attrs.GetName(),
		Resource: attrs.GetResource(), ResourceRequest: true}
}

// nodeObject decides about Nodes, with upstream's list (authorizeNode): the object
// itself, and writes of its status. Unlike a kubelet, a node of ours routes to
// the pods of the others by itself and reads all Nodes; it writes its own. No
// other subresource is for it, not its own nodes/proxy either: the server would
// call, as itself, an address that the node has written.
func nodeObject(attrs authorizer.Attributes) string {
	switch attrs.GetSubresource() {
	case "":
		if oneOf(attrs.GetVerb(), "get", "list", "watch", "create", "update", "patch") {
			return "" // writes of its own alone: NodeRestriction
		}
	case "status":
		if oneOf(attrs.GetVerb(), "update", "patch") {
			return "" // its own: NodeRestriction
		}
	}
	return silent
}

// selects says whether a field selector demands that a field has a value.
func selects(attrs authorizer.Attributes, field, value string) bool {
	reqs, err := attrs.GetFieldSelector()
	if err != nil {
		return false
	}
	for _, r := range reqs {
		if r.Field == field && r.Value == value && (r.Operator == selection.Equals || r.Operator == selection.DoubleEquals) {
			return true
		}
	}
	return false
}

func lease(node string, attrs authorizer.Attributes) string {
	switch {
	case !oneOf(attrs.GetVerb(), "get", "create", "update", "patch", "delete"):
		return "can only get, create, update, patch, or delete a node lease"
	case attrs.GetNamespace() != LeaseNamespace:
		return fmt.Sprintf("can only access leases in the %q system namespace", LeaseNamespace)
	case attrs.GetVerb() != "create" && attrs.GetName() != node:
		return "can only access node lease with the same name as the requesting node"
	}
	return ""
}

func csiNode(node string, attrs authorizer.Attributes) string {
	switch {
	case !oneOf(attrs.GetVerb(), "get", "create", "update", "patch", "delete"):
		return "can only get, create, update, patch, or delete a CSINode"
	case attrs.GetSubresource() != "":
		return "cannot authorize CSINode subresources"
	case attrs.GetVerb() != "create" && attrs.GetName() != node:
		return "can only access CSINode with the same name as the requesting node"
	}
	return ""
}

// attachment lets a node see the VolumeAttachments that name it.
func (a *Authorizer) attachment(node string, attrs authorizer.Attributes) string {
	if refusal := getOnly(attrs); refusal != "" {
		return refusal
	}
	return relatedIf(node, attrs, func() bool {
		va, ok := client.Cached[*storagev1.VolumeAttachment](a.cache, schema.Key{Name: attrs.GetName()})
		return ok && va.Spec.NodeName == node
	})
}

// slice lets a node manage its own ResourceSlices; whose a new one is,
// NodeRestriction knows.
func (a *Authorizer) slice(node string, attrs authorizer.Attributes) string {
	if attrs.GetSubresource() != "" {
		return "cannot authorize ResourceSlice subresources"
	}
	switch attrs.GetVerb() {
	case "create":
		return ""
	case "get", "update", "patch", "delete":
		return relatedIf(node, attrs, func() bool {
			s, ok := client.Cached[*resourcev1.ResourceSlice](a.cache, schema.Key{Name: attrs.GetName()})
			return ok && s.Spec.NodeName != nil && *s.Spec.NodeName == node
		})
	case "watch", "list", "deletecollection":
		if selects(attrs, resourcev1.ResourceSliceSelectorNodeName, node) {
			return ""
		}
		return "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
}
