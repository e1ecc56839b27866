// Package apps judges workloads: Deployments, ReplicaSets, DaemonSets,
// StatefulSets, their revisions, and ReplicationControllers, which are one of
// them though their group is another.
//
// It watches nothing, owns nothing and promises not to change what it judges.
package apps

import "github.com/writ-os/writ/schema/kind"

// Kinds are the judges of the group.
var Kinds = []*kind.Kind{
	ControllerRevision, DaemonSet, Deployment, ReplicaSet, ReplicationController, StatefulSet,
}
