package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
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
		kschema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"},
		kschema.GroupKind{Group: "resource.k8s.io", Kind: "ResourceClaim"},
		kschema.GroupKind{Group: "storage.k8s.io", Kind: "VolumeAttachment"},
		kschema.GroupKind{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"},
		kschema.GroupKind{Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"},
		kschema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:
		return keepsAll
	}
	if r.Group == v1alpha1.GroupVersion.Group { // as that of a custom resource
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
// therefore own by it (upstream: GetResetFields of the strategies).
func resetFields(r *schema.Resource, sub string) map[fieldpath.APIVersion]fieldpath.Filter {
	if r == scaleRow {
		return nil
	}
	var paths []fieldpath.Path
	switch {
	case r.Group == "certificates.k8s.io" && r.Kind == "CertificateSigningRequest":
		paths = requestResets(sub)
	case sub == "status":
		paths = statusResets(r)
	case r.Status && (sub == "" || sub == "finalize"):
		paths = []fieldpath.Path{fieldpath.MakePathOrDie("status")}
	}
	if len(paths) == 0 {
		return nil
	}
	filter := fieldpath.NewExcludeSetFilter(fieldpath.NewSet(paths...))
	resets := map[fieldpath.APIVersion]fieldpath.Filter{fieldpath.APIVersion(r.APIVersion()): filter}
	if r.Custom == nil {
		for _, v := range schema.Resources { // fields may be owned by another version
			if v.Stored() == r.Stored() {
				resets[fieldpath.APIVersion(v.APIVersion())] = filter
			}
		}
	}
	return resets
}

func statusResets(r *schema.Resource) []fieldpath.Path {
	paths := []fieldpath.Path{fieldpath.MakePathOrDie("spec")}
	switch keeps := statusKeeps(r); {
	case keeps == keepsAll || r.Custom != nil:
		paths = append(paths, fieldpath.MakePathOrDie("metadata"))
	case keeps == keepsLabels:
		paths = append(paths, fieldpath.MakePathOrDie("metadata", "labels"))
	case r.Kind == "Pod" && r.Group == "":
		paths = append(paths, fieldpath.MakePathOrDie("metadata", "deletionTimestamp"), fieldpath.MakePathOrDie("metadata", "ownerReferences"))
	}
	return paths
}

// requestResets are those of a CertificateSigningRequest: its status has two
// doors, one for the conditions, one for the certificate.
func requestResets(sub string) []fieldpath.Path {
	reset := fieldpath.MakePathOrDie("status")
	switch sub {
	case "status":
		reset = fieldpath.MakePathOrDie("status", "conditions")
	case "approval":
		reset = fieldpath.MakePathOrDie("status", "certificate")
	}
	return []fieldpath.Path{fieldpath.MakePathOrDie("spec"), reset}
}
