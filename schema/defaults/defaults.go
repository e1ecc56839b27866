// Package defaults fills in what a user may leave out of an object, as
// Kubernetes v1.36 does.
//
// Static defaults are written beside the constraints in schema/cue/constraints
// (`*"Always" | ...`) and generated into zz_defaults.go. Those that depend on
// other fields are here in Go: set<Type> runs for every value of its type
// before the static defaults of that type, and before those of its fields.
//
// It watches nothing and owns nothing: callers own the object.
package defaults

import "github.com/writ-os/writ/schema"

// Apply sets every default of the object in place. Applying it again changes
// nothing. Kinds without defaults stay as they are.
func Apply(o schema.Object) { apply(o) }
