package support

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

const (
	noSourceRanges  = "nothing narrows who may reach the service, so everybody could"
	insteadOfRanges = "leave it out; make the service a ClusterIP and let a proxy in front of it check who calls"
)

var (
	_ = fields[corev1.Service](through("spec"))
	_ = fields[corev1.ServiceSpec](
		honoured(`ports selector clusterIP clusterIPs externalIPs sessionAffinity externalName externalTrafficPolicy publishNotReadyAddresses
			sessionAffinityConfig ipFamilyPolicy allocateLoadBalancerNodePorts internalTrafficPolicy`),
		partly("ipFamilies", "The cluster has IPv4. A service that needs IPv6 is refused, as by a cluster of Kubernetes with one family."),
		honoured("type"),
		warned("type", "nothing gives the service an address until a load balancer's own controller does; it answers at its node ports",
			"use a NodePort, or deploy a load balancer").when("`LoadBalancer`", is(corev1.ServiceTypeLoadBalancer)),
		partly("loadBalancerClass", "For the controller that has this class."),
		ignored("loadBalancerIP", "A wish to the controller of a load balancer, deprecated by Kubernetes."),
		refused("loadBalancerSourceRanges", noSourceRanges, insteadOfRanges).when("anything but every address", narrows).leftOut(),
		warned("healthCheckNodePort", "nothing answers on the port, so a load balancer cannot ask which nodes have pods of the service", "use the externalTrafficPolicy Cluster").inGit(),
		ignored("trafficDistribution", "A wish, not a rule: traffic goes to all endpoints alike."),
	)
	_ = fields[corev1.ServicePort](honoured("name protocol appProtocol port targetPort nodePort"))
	_ = fields[corev1.SessionAffinityConfig](honoured("clientIP"))
	_ = fields[corev1.ClientIPConfig](honoured("timeoutSeconds"))
)

// narrows says whether a list of ranges leaves anybody out.
func narrows(v reflect.Value) bool {
	ranges, ok := read[[]string](v)
	return ok && len(ranges) > 0 && !slices.Contains(ranges, "0.0.0.0/0")
}

var (
	_ = fields[corev1.Node](through("spec"))
	_ = fields[corev1.NodeSpec](
		honoured("podCIDR podCIDRs unschedulable taints"),
		ignored("providerID", "There is no cloud controller to look the machine up."),
		ignored("configSource", "Kubernetes has taken it away, and its nodes ignore it too."),
		ignored("externalID", "Kubernetes has taken it away, and its nodes ignore it too."),
	)
	_ = fields[corev1.Taint](honoured("key value effect"), ignored("timeAdded", "Set by controllers; how long a pod tolerates a taint is counted from it."))
)
