package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// tolerationSeconds is how long a pod stays on a node that is gone.
const tolerationSeconds = 300

// Tolerations lets a pod stay five minutes on a node that is not ready or not
// reachable, unless the pod itself says how long.
type Tolerations struct {
	mutates
	// NotReady and Unreachable are other seconds than the five minutes.
	NotReady, Unreachable *int64
}

var _ registry.Admission = (*Tolerations)(nil)

// Handles implements registry.Handler.
func (*Tolerations) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb != "delete" && sub == "" && is(r, "", "pods")
}

// Mutate implements registry.Admission.
func (t *Tolerations) Mutate(_ context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	for _, taint := range []struct {
		key     string
		seconds *int64
	}{{corev1.TaintNodeNotReady, t.NotReady}, {corev1.TaintNodeUnreachable, t.Unreachable}} {
		key, wanted := taint.key, taint.seconds
		if !toleratesEviction(pod.Spec.Tolerations, key) {
			seconds := int64(tolerationSeconds)
			if wanted != nil {
				seconds = *wanted
			}
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
			})
		}
	}
	return nil
}

func toleratesEviction(list []corev1.Toleration, key string) bool {
	for _, t := range list {
		if (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}
