// Package network judges Ingresses, NetworkPolicies, EndpointSlices and the
// addresses that a cluster gives out.
//
// It watches nothing, owns nothing and promises not to change what it judges.
package network

import "github.com/writ-os/writ/schema/kind"

// Kinds are the judges of the group.
var Kinds = []*kind.Kind{
	EndpointSlice, IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR,
}
