// Package resource judges devices: claims, their templates, classes and
// slices.
//
// It watches nothing, owns nothing and promises not to change what it judges.
package resource

import "github.com/writ-os/writ/schema/kind"

// Kinds are the judges of the group.
var Kinds = []*kind.Kind{
	DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
}
