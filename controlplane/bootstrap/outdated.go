package bootstrap

import (
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/writ-os/writ/schema"
)

// Outdated says whether an object that is there has to become as wanted: the
// mandatory configuration of flowcontrol always, the suggested one unless an
// administrator has said by its annotation that it is theirs, and whom
// aggregated API servers trust. All else is left as it is.
func Outdated(have, want schema.Object) bool {
	if !Mandatory(want) && have.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey] == "false" {
		return false
	}
	switch w := want.(type) {
	case *corev1.ConfigMap:
		h, ok := have.(*corev1.ConfigMap)
		return ok && w.Name == "extension-apiserver-authentication" && !equality.Semantic.DeepEqual(h.Data, w.Data)
	case *flowcontrolv1.FlowSchema:
		h, ok := have.(*flowcontrolv1.FlowSchema)
		return ok && !equality.Semantic.DeepEqual(h.Spec, w.Spec)
	case *flowcontrolv1.PriorityLevelConfiguration:
		h, ok := have.(*flowcontrolv1.PriorityLevelConfiguration)
		return ok && !equality.Semantic.DeepEqual(h.Spec, w.Spec)
	}
	return false
}
