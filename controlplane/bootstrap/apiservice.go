package bootstrap

import (
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Managed is the label of entries that the server keeps itself: "onstart" those
// of its own groups, "true" those of custom resources.
const Managed = "kube-aggregator.kubernetes.io/automanaged"

// priority orders groups and versions in discovery; higher comes first.
type priority struct{ group, version int32 }

// priorities are those of the groups that are served (upstream:
// pkg/controlplane/apiserver/aggregator.go, cmd/kube-apiserver/app/aggregator.go).
var priorities = map[kschema.GroupVersion]priority{
	{Version: "v1"}:                                        {18000, 1},
	{Group: "apps", Version: "v1"}:                         {17800, 15},
	{Group: "events.k8s.io", Version: "v1"}:                {17750, 15},
	{Group: "authentication.k8s.io", Version: "v1"}:        {17700, 15},
	{Group: "authorization.k8s.io", Version: "v1"}:         {17600, 15},
	{Group: "autoscaling", Version: "v1"}:                  {17500, 15},
	{Group: "autoscaling", Version: "v2"}:                  {17500, 30},
	{Group: "batch", Version: "v1"}:                        {17400, 15},
	{Group: "certificates.k8s.io", Version: "v1"}:          {17300, 15},
	{Group: "networking.k8s.io", Version: "v1"}:            {17200, 15},
	{Group: "policy", Version: "v1"}:                       {17100, 15},
	{Group: "rbac.authorization.k8s.io", Version: "v1"}:    {17000, 15},
	{Group: "storage.k8s.io", Version: "v1"}:               {16800, 15},
	{Group: "apiextensions.k8s.io", Version: "v1"}:         {16700, 15},
	{Group: "admissionregistration.k8s.io", Version: "v1"}: {16700, 15},
	{Group: "scheduling.k8s.io", Version: "v1"}:            {16600, 15},
	{Group: "coordination.k8s.io", Version: "v1"}:          {16500, 15},
	{Group: "node.k8s.io", Version: "v1"}:                  {16300, 15},
	{Group: "discovery.k8s.io", Version: "v1"}:             {16200, 15},
	{Group: "resource.k8s.io", Version: "v1"}:              {16200, 21},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {16100, 21},
	{Group: "writ.dev", Version: "v1alpha1"}:               {1000, 100},
}

// customPriority is that of every group of custom resources.
var customPriority = priority{1000, 100}

// ownPriority is that of the group of the entries, which has none of its own.
var ownPriority = priority{17900, 15}

// Priority orders groups, then versions, in discovery: higher comes first. It
// is that of custom resources for what is not known.
func Priority(gv kschema.GroupVersion) (group, version int32) {
	if gv.Group == apiregistrationv1.GroupName {
		return ownPriority.group, ownPriority.version
	}
	if p, ok := priorities[gv]; ok {
		return p.group, p.version
	}
	return customPriority.group, customPriority.version
}
