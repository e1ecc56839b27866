package health

import (
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// selectedNode is set on a claim when a pod that uses it has been scheduled.
const selectedNode = "volume.kubernetes.io/selected-node"

// claim judges a PersistentVolumeClaim. One whose class binds only when a pod
// asks for it is as its author wanted it while none does.
func claim(c *corev1.PersistentVolumeClaim, live Live) Health {
	switch c.Status.Phase {
	case corev1.ClaimBound:
		return healthy()
	case corev1.ClaimLost:
		return degraded("the volume of the claim is lost")
	}
	if c.Annotations[selectedNode] == "" && c.Spec.VolumeName == "" && waitsForConsumer(c, live) {
		return Health{Status: Healthy, Message: "waits for the first pod that uses it"}
	}
	return progressing("the claim is not bound to a volume")
}

func waitsForConsumer(c *corev1.PersistentVolumeClaim, live Live) bool {
	if live == nil || c.Spec.StorageClassName == nil || *c.Spec.StorageClassName == "" {
		return false
	}
	o, ok := live.Get(schema.ResourceFor[*storagev1.StorageClass](), schema.Key{Name: *c.Spec.StorageClassName})
	if !ok {
		return false
	}
	class, ok := o.(*storagev1.StorageClass)
	return ok && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// budget judges a PodDisruptionBudget as kstatus does; one without pods is
// kept by nobody and holds nobody up.
func budget(b *policyv1.PodDisruptionBudget) Health {
	s := b.Status
	if s.ObservedGeneration < b.Generation {
		return progressing(notSeen)
	}
	for _, c := range s.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition && c.Reason == policyv1.SyncFailedReason {
			return degraded("cannot be kept: %s", c.Message)
		}
	}
	if s.ExpectedPods > 0 && s.CurrentHealthy < s.DesiredHealthy {
		return progressing("%d pods are healthy, the budget asks for %d", s.CurrentHealthy, s.DesiredHealthy)
	}
	return healthy()
}

// autoscaler judges a HorizontalPodAutoscaler by its conditions. Without any
// nothing scales here, and there is nothing to wait for.
func autoscaler(h *autoscalingv2.HorizontalPodAutoscaler) Health {
	for _, c := range h.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionFalse:
		case c.Type == autoscalingv2.AbleToScale && c.Reason == "BackoffBoth", c.Type == autoscalingv2.AbleToScale && c.Reason == "BackoffDownscale":
		case c.Type == autoscalingv2.AbleToScale:
			return degraded("cannot scale%s", why(c.Reason, c.Message))
		case c.Type == autoscalingv2.ScalingActive && c.Reason == "ScalingDisabled":
			return Health{Status: Healthy, Message: "is switched off: its target has no replicas"}
		case c.Type == autoscalingv2.ScalingActive:
			return degraded("does not scale%s", why(c.Reason, c.Message))
		}
	}
	if s := h.Status; len(s.Conditions) > 0 && s.ObservedGeneration != nil && *s.ObservedGeneration < h.Generation {
		return progressing(notSeen)
	}
	return healthy()
}

// autoscalerV1 is the old form: the conditions are in an annotation, which is
// not read.
func autoscalerV1(h *autoscalingv1.HorizontalPodAutoscaler) Health {
	if g := h.Status.ObservedGeneration; g != nil && *g < h.Generation {
		return progressing(notSeen)
	}
	return healthy()
}

func signingRequest(r *certificatesv1.CertificateSigningRequest) Health {
	approved := false
	for _, c := range r.Status.Conditions {
		switch {
		case c.Status == corev1.ConditionFalse:
		case c.Type == certificatesv1.CertificateDenied:
			return degraded("is denied%s", why(c.Reason, c.Message))
		case c.Type == certificatesv1.CertificateFailed:
			return degraded("cannot be signed%s", why(c.Reason, c.Message))
		case c.Type == certificatesv1.CertificateApproved:
			approved = true
		}
	}
	switch {
	case len(r.Status.Certificate) > 0:
		return healthy()
	case approved:
		return progressing("is approved and not signed yet by %s", r.Spec.SignerName)
	}
	return progressing("waits for approval")
}

// resourceClaim judges a claim of devices. One that no pod uses is not
// allocated, as with claims of volumes.
func resourceClaim(c *resourcev1.ResourceClaim) Health {
	if len(c.Status.ReservedFor) > 0 && c.Status.Allocation == nil {
		return progressing("the devices are not allocated")
	}
	for _, d := range c.Status.Devices {
		for _, cond := range d.Conditions {
			if cond.Type == "Ready" && cond.Status == metav1.ConditionFalse {
				return degraded("device %s of %s is not ready%s", d.Device, d.Driver, why(cond.Reason, cond.Message))
			}
		}
	}
	return healthy()
}

func serviceCIDR(s *networkingv1.ServiceCIDR) Health {
	if h := conditions(s.Status.Conditions, networkingv1.ServiceCIDRConditionReady); h.Status != Healthy {
		return progressing("%s", h.Message)
	}
	return healthy()
}

// definition judges a CustomResourceDefinition as kstatus does: names that
// cannot be taken, and the moment in which it is served.
func definition(d *apiextensionsv1.CustomResourceDefinition) Health {
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse:
			return degraded("its names cannot be used%s", why(c.Reason, c.Message))
		case c.Type == apiextensionsv1.NonStructuralSchema && c.Status == apiextensionsv1.ConditionTrue:
			return degraded("its schema is not structural%s", why(c.Reason, c.Message))
		}
	}
	for _, c := range d.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			if c.Status == apiextensionsv1.ConditionTrue {
				return healthy()
			}
			return progressing("is not served yet%s", why(c.Reason, c.Message))
		}
	}
	return progressing("is not served yet")
}

func apiService(s *apiregistrationv1.APIService) Health {
	for _, c := range s.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			if c.Status == apiregistrationv1.ConditionTrue {
				return healthy()
			}
			return progressing("is not available%s", why(c.Reason, c.Message))
		}
	}
	return progressing(notSeen)
}

func node(n *corev1.Node) Health {
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	switch {
	case i < 0:
		return progressing("the node has not reported yet")
	case n.Status.Conditions[i].Status == corev1.ConditionTrue:
		return healthy()
	}
	c := n.Status.Conditions[i]
	return degraded("the node is not ready%s", why(c.Reason, c.Message))
}

// conditions is degraded when a condition is False.
func conditions(all []metav1.Condition, kind string) Health {
	for _, c := range all {
		if c.Type == kind && c.Status == metav1.ConditionFalse {
			return degraded("%s", c.Message)
		}
	}
	return healthy()
}

// repository is healthy once a commit of it has been applied: what its later
// commits come to is said of them, and holds no commit up that declares it.
func repository(r *v1alpha1.Repository) Health {
	switch {
	case r.Status.Applied != "":
		return healthy()
	case r.Spec.Suspend:
		return Health{Status: Healthy, Message: "is suspended"}
	}
	if h := conditions(r.Status.Conditions, "Ready"); h.Status != Healthy {
		return h
	}
	return progressing("nothing of it is applied yet")
}

// ending tells of an object that is being deleted what holds it up.
func ending(o schema.Object) Health {
	if f := o.GetFinalizers(); len(f) > 0 {
		return progressing("is being deleted, and waits for %s", strings.Join(f, ", "))
	}
	if ns, ok := o.(*corev1.Namespace); ok {
		for _, c := range ns.Status.Conditions {
			if c.Status == corev1.ConditionTrue && c.Message != "" {
				return progressing("the namespace is ending: %s", c.Message)
			}
		}
		return progressing("the namespace is ending")
	}
	return progressing("is being deleted")
}
