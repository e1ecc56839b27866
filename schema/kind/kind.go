// Package kind says what a kind is beyond the structure of its objects: which
// of them are valid, how they may change, what their writers are warned of, and
// what a write means for status and generation.
//
// There is one literal for each kind, in one folder for each group (core, apps,
// batch, ...); package kinds is the table of them all. The API server and Git
// (writ check, a push, a plan) ask the same literal, so that they are of one
// opinion: the server maps a cause to a Status, Git to file:line:col.
//
// All is pure: a Kind reads values and changes only the new object, in
// functions named Prepare or Normalize. What needs the store or other objects
// (addresses that are given out, quotas, references) is a step of
// controlplane/registry. Names, columns and selectable fields of a kind are its
// row in the resource table, structure and defaults its definition in CUE.
//
// It watches nothing, owns nothing, and imports nothing of ours outside schema.
package kind

import (
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

// Kind is the judge of one kind. Every function may be nil. old is nil for a
// new object where a function serves both.
type Kind struct {
	Resource *schema.Resource

	// Name checks the name of an object. Default: a DNS subdomain.
	Name validation.ValidateNameFunc
	// OwnSchema says that Validate and ValidateUpdate know all there is to know,
	// and a write need not ask the CUE schema.
	OwnSchema bool
	// SchemaBelow says that of a field below this path alone a write asks the
	// CUE schema ("spec.template."): the functions know the others.
	SchemaBelow string
	// OwnImmutable says that ValidateUpdate knows the immutable fields, with
	// texts of its own, and the resource table is not asked.
	OwnImmutable bool

	// Generation says that metadata.generation counts the changes of the spec.
	Generation bool
	// Annotations count as spec for the generation.
	Annotations bool
	// Conditional demands a resourceVersion on every update.
	Conditional bool
	// CreateOnUpdate lets an update of an object that does not exist create it.
	CreateOnUpdate bool
	// KeepsStatus lets the spec door write the status (the kind has one door).
	KeepsStatus bool
	// Orphans says that the dependents of an object stay when a client deletes it
	// and does not say what shall become of them.
	Orphans bool

	// Normalize brings an object that was sent into the one form in which the
	// kind is kept, before anybody owns its fields (upstream: its conversion).
	Normalize func(o schema.Object)
	// Complete writes into an object what follows from what it says, and from
	// what it was; what it finds wrong is all that is said of the object.
	Complete func(o, old schema.Object) field.ErrorList
	// PrepareCreate prepares a new object. Its status has been cleared.
	PrepareCreate func(o schema.Object)
	// PrepareUpdate prepares a change through the spec door. The status is the
	// old one.
	PrepareUpdate func(o, old schema.Object)
	// PrepareStatus prepares a change through the status door. The spec is the
	// old one.
	PrepareStatus func(o, old schema.Object)
	// PrepareDoor prepares a change through another subresource: it restores in
	// o all but what that door lets through. The status is the old one.
	PrepareDoor func(sub string, o, old schema.Object)

	// ValidateCreate checks new objects only: ValidateUpdate knows all there is
	// to know of an update.
	ValidateCreate func(o schema.Object) field.ErrorList
	// Validate checks new objects and changed ones.
	Validate func(o schema.Object) field.ErrorList
	// ValidateUpdate checks a change through the door of the spec.
	ValidateUpdate func(o, old schema.Object) field.ErrorList
	// ValidateDoor checks a change through any other door than that of the spec.
	ValidateDoor func(sub string, o, old schema.Object) field.ErrorList
	// Warnings are what a client is told of a state that has been found valid.
	// Other doors than that of the spec have none.
	Warnings func(o, old schema.Object) []string

	// Grace says how long the object may take to end, and whether it ends
	// gracefully at all.
	Grace func(o schema.Object, asked *int64) (seconds int64, graceful bool)
	// Held says that something besides metadata.finalizers holds the object.
	Held func(o schema.Object) bool
	// Marked says that a deletion which begins is marked by its time alone,
	// without a grace period or a new generation.
	Marked bool
	// PrepareDelete prepares an object whose deletion begins.
	PrepareDelete func(o schema.Object)
}
