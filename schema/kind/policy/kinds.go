// Package policy judges PodDisruptionBudgets.
//
// It watches nothing, owns nothing and promises not to change what it judges.
package policy

import "github.com/writ-os/writ/schema/kind"

// Kinds are the judges of the group.
var Kinds = []*kind.Kind{
	PodDisruptionBudget,
}
