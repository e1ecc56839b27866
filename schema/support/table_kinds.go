package support

import (
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Kinds that are kept and served and on which nothing acts. Clients may make
// them: upstream's conformance does. Their spec is one row.
var (
	_ = fields[networkingv1.NetworkPolicy](refused("spec", "no node applies network policies, so the traffic that it forbids would pass",
		"leave it out, and keep such pods apart by other means: a cluster of their own, or a check of who calls in the program").
		when("anything that forbids something", forbids).onlyGit())
	_ = fields[autoscalingv1.HorizontalPodAutoscaler](warned("spec", noScaling, insteadOfScaling))
	_ = fields[autoscalingv2.HorizontalPodAutoscaler](warned("spec", noScaling, insteadOfScaling))
	_ = fields[corev1.PersistentVolumeClaim](warned("spec", "no storage driver is there and nothing binds claims, so it stays Pending, and so do the pods that use it", insteadOfClaims))
	_ = fields[corev1.PersistentVolume](warned("spec", "nothing binds volumes to claims, and no node mounts them", insteadOfClaims))
	_ = fields[resourcev1.ResourceClaim](warned("spec", noAllocation, leaveOut).when("", always))
	_ = fields[resourcev1.ResourceClaimTemplate](warned("spec", noAllocation, leaveOut).when("", always))
	_ = fields[storagev1.StorageClass](
		warned("provisioner", "nothing makes volumes, so claims of this class stay Pending", insteadOfClaims),
		ignored("parameters reclaimPolicy mountOptions allowVolumeExpansion volumeBindingMode allowedTopologies", "Nothing makes volumes; see provisioner."))
	_ = fields[nodev1.RuntimeClass](
		honoured("overhead scheduling"), honoured("handler"),
		warned("handler", "every container is run by runc", "use the handler runc; pods of this class are refused by the nodes").when("anything but `runc`", isNot("runc")))
	_ = fields[nodev1.Overhead](honoured("podFixed"))
	_ = fields[nodev1.Scheduling](honoured("nodeSelector tolerations"))
)

const (
	noScaling        = "nothing scales: the number of replicas stays as it is"
	insteadOfScaling = "set spec.replicas of the workload, or deploy an autoscaler of your own"
	noAllocation     = "no device driver is there and nothing allocates claims, so it stays unallocated"
)

// forbids says whether a policy keeps any traffic from the pods it selects: in
// a direction that it is about no rule lets everything pass.
func forbids(v reflect.Value) bool {
	spec, ok := read[networkingv1.NetworkPolicySpec](v)
	if !ok {
		return false
	}
	types := spec.PolicyTypes
	if len(types) == 0 { // as Kubernetes fills it in
		types = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(spec.Egress) > 0 {
			types = append(types, networkingv1.PolicyTypeEgress)
		}
	}
	for _, t := range types {
		open := false
		switch t {
		case networkingv1.PolicyTypeIngress:
			for _, r := range spec.Ingress {
				open = open || len(r.From) == 0 && len(r.Ports) == 0
			}
		case networkingv1.PolicyTypeEgress:
			for _, r := range spec.Egress {
				open = open || len(r.To) == 0 && len(r.Ports) == 0
			}
		}
		if !open {
			return true
		}
	}
	return false
}
