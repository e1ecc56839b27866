// Package extension judges what adds kinds to the API:
// CustomResourceDefinitions and APIServices.
//
// It watches nothing, owns nothing and promises not to change what it judges.
package extension

import "github.com/writ-os/writ/schema/kind"

// Kinds are the judges of the group.
var Kinds = []*kind.Kind{
	APIService, CustomResourceDefinition,
}
