package core

import "github.com/writ-os/writ/schema/kind"

// Kinds are the judges of the group.
var Kinds = []*kind.Kind{
	ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, Pod, PodTemplate, ResourceQuota, Secret,
	Service,
}
