package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/writ-os/writ/schema"
)

// The metadata that the status door of a kind does not let through. Of most
// kinds it lets all through (upstream: PrepareForUpdate of the status
// strategies).
type keptMeta int

const (
	keepsNone   keptMeta = iota
	keepsLabels          // labels
	keepsAll             // labels, annotations, finalizers, owners
)

func statusKeeps(r *schema.Resource) keptMeta {
	switch (kschema.GroupKind{Group: r.Group, Kind: r.Kind}) {
	case kschema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return keepsLabels
	case kschema.GroupKind{Group: "networking.k8s.io", Kind: "ServiceCIDR"},
		kschema.GroupKind{Group: "resource.k8s.io", Kind: "ResourceClaim"},
		kschema.GroupKind{Group: "storage.k8s.io", Kind: "VolumeAttachment"},
		kschema.GroupKind{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"},
		kschema.GroupKind{Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"},
		kschema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:
		return keepsAll
	}
	return keepsNone
}

// keepStatusMeta restores that metadata in a change through the status door.
func keepStatusMeta(r *schema.Resource, o, old metav1.Object) {
	switch statusKeeps(r) {
	case keepsAll:
		o.SetAnnotations(old.GetAnnotations())
		o.SetFinalizers(old.GetFinalizers())
		o.SetOwnerReferences(old.GetOwnerReferences())
		fallthrough
	case keepsLabels:
		o.SetLabels(old.GetLabels())
	}
}

// resetFields are the fields that a door does not let through, which nobody can
// therefore own by it.
func resetFields(r *schema.Resource, sub string) map[fieldpath.APIVersion]fieldpath.Filter {
	set := fieldpath.NewSet()
	switch {
	case sub == "status":
		set.Insert(fieldpath.MakePathOrDie("spec"))
		switch keeps := statusKeeps(r); {
		case keeps == keepsAll || r.Custom != nil:
			set.Insert(fieldpath.MakePathOrDie("metadata"))
		case keeps == keepsLabels:
			set.Insert(fieldpath.MakePathOrDie("metadata", "labels"))
		case r.Kind == "Pod" && r.Group == "":
			set.Insert(fieldpath.MakePathOrDie("metadata", "deletionTimestamp"))
			set.Insert(fieldpath.MakePathOrDie("metadata", "ownerReferences"))
		}
	case sub == "" && r.Status:
		set.Insert(fieldpath.MakePathOrDie("status"))
	default:
		return nil
	}
	return map[fieldpath.APIVersion]fieldpath.Filter{fieldpath.APIVersion(r.APIVersion()): fieldpath.NewExcludeSetFilter(set)}
}
