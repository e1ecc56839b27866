package writ

import "github.com/writ-os/writ/schema/kind"

// Kinds are the judges of the group.
var Kinds = []*kind.Kind{
	Cluster, Commit, NodeImage, NodePool, Repository,
}
