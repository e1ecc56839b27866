package registry

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

// rule is what one kind adds to what all kinds share. Every function may be
// nil. Functions that prepare may change o, never old; functions that validate
// change nothing.
type rule struct {
	// generation says that metadata.generation counts the changes of the spec.
	generation bool
	// annotations count as spec for the generation.
	annotations bool
	// name checks the name of an object. Default: a DNS subdomain.
	name validation.ValidateNameFunc
	// conditional demands a resourceVersion on every update.
	conditional bool
	// orphans says that the dependents of an object stay when a client deletes it
	// and does not say what shall become of them.
	orphans bool
	// createOnUpdate lets an update of an object that does not exist create it.
	createOnUpdate bool
	// ownImmutable says that validateUpdate knows the immutable fields, with
	// texts of its own, and the resource table is not asked.
	ownImmutable bool
	// ownSchema says that validate and validateUpdate know all there is to
	// know, and the CUE schema is not asked.
	ownSchema bool
	// schemaBelow says that of a field below this path alone the CUE schema is
	// asked ("spec.template."): the rules know the others.
	schemaBelow string
	// keepsStatus lets the spec door write the status (the kind has one door).
	keepsStatus bool

	// normal brings an object that was sent into the one form in which the kind is
	// kept, before anybody owns its fields (upstream: its conversion).
	normal func(o schema.Object)
	// begin comes first of all: it completes what was sent from what there was
	// and claims what the cluster has once, addresses and ports (upstream: the
	// BeginCreate and BeginUpdate of a registry). old is nil for a new object.
	begin func(ctx context.Context, w *write, o, old schema.Object) error
	// create prepares a new object. Its status has been cleared.
	create func(o schema.Object)
	// update prepares a change through the spec door. The status is the old one.
	update func(o, old schema.Object)
	// status prepares a change through the status door. The spec is the old one.
	status func(o, old schema.Object)
	// door prepares a change through another subresource: it restores in o all
	// but what that door lets through. The status is the old one.
	door func(sub string, o, old schema.Object)

	// validateNew checks new objects only: validateUpdate knows all there is to
	// know of an update.
	validateNew    func(o schema.Object) field.ErrorList
	validate       func(o schema.Object) field.ErrorList
	validateUpdate func(o, old schema.Object) field.ErrorList
	// validateDoor checks a change through any other door than that of the spec.
	validateDoor func(sub string, o, old schema.Object) field.ErrorList

	// warnings are what a client is told of a state that has been found valid.
	// Other doors than that of the spec have none. old is nil for a new object.
	warnings func(o, old schema.Object) []string

	// allocate is the last of the rules: old is nil for a new object, o is nil
	// for one that goes and gives back what begin has claimed for it.
	allocate func(w *write, o, old schema.Object) field.ErrorList

	// grace says how long the object may take to end, and whether it ends
	// gracefully at all.
	grace func(o schema.Object, asked *int64) (seconds int64, graceful bool)
	// held says that something besides metadata.finalizers holds the object.
	held func(o schema.Object) bool
	// marked says that a deletion which begins is marked by its time alone,
	// without a grace period or a new generation.
	marked bool
	// deleting prepares an object whose deletion begins.
	deleting func(o schema.Object)
}

// plainRule is the rule of kinds that have nothing of their own.
var plainRule = &rule{}

// allRules are the rules of all kinds that have some.
func (g *Registry) allRules() map[*schema.Resource]*rule {
	rules := map[*schema.Resource]*rule{}
	for _, add := range []func(map[*schema.Resource]*rule){
		coreRules, podRules, namespaceRules, workloadRules, jobRules, configRules, accessRules, storageRules, g.serviceRules, certificateRules,
		admissionKindRules, flowcontrolRules, extensionRules, networkKindRules, driverRules, deviceRules, runtimeRules, eventRules,
		warningRules,
	} {
		add(rules)
	}
	return rules
}

func (u *rule) nameFunc() validation.ValidateNameFunc {
	if u.name != nil {
		return u.name
	}
	return validation.NameIsDNSSubdomain
}

// prepareCreate brings a new object into the state in which its life begins.
func (u *rule) prepareCreate(r *schema.Resource, o schema.Object) {
	if c, ok := o.(*unstructured.Unstructured); ok {
		prepareCustom(r, c)
		return
	}
	if r.Status && !u.keepsStatus {
		clearPart(o, "Status")
	}
	if u.generation { // other kinds keep what they are sent, which means nothing
		o.SetGeneration(1)
	}
	if u.create != nil {
		u.create(o)
	}
}

// prepareUpdate lets a change through the door it came by.
func (u *rule) prepareUpdate(r *schema.Resource, sub string, o, old schema.Object) {
	if c, ok := o.(*unstructured.Unstructured); ok {
		prepareCustomUpdate(r, sub, c, old.(*unstructured.Unstructured))
		return
	}
	switch sub {
	case "status":
		takePart(o, old, "Spec")
		keepStatusMeta(r, o, old)
		if u.status != nil {
			u.status(o, old)
		}
		return
	case "":
		if r.Status && !u.keepsStatus {
			takePart(o, old, "Status")
		}
		if u.update != nil {
			u.update(o, old)
		}
	default:
		if sub != "approval" { // the one that is there to write the status
			takePart(o, old, "Status")
		}
		if u.door != nil {
			u.door(sub, o, old)
		}
	}
	if u.generation && u.specChanged(o, old) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
}

// specChanged says whether an update is one that controllers must observe.
func (u *rule) specChanged(o, old schema.Object) bool {
	return !samePart(o, old, "Spec") ||
		u.annotations && !maps.Equal(o.GetAnnotations(), old.GetAnnotations())
}

// keepMeta restores what an update may not touch in the metadata.
func keepMeta(o, old metav1.Object) {
	o.SetGeneration(old.GetGeneration())
	o.SetSelfLink("")
	if o.GetUID() == "" {
		o.SetUID(old.GetUID())
	}
	if at := old.GetCreationTimestamp(); !at.IsZero() {
		o.SetCreationTimestamp(at)
	}
	if at := old.GetDeletionTimestamp(); at != nil {
		o.SetDeletionTimestamp(at)
	}
	if s := old.GetDeletionGracePeriodSeconds(); s != nil && o.GetDeletionGracePeriodSeconds() == nil {
		o.SetDeletionGracePeriodSeconds(s)
	}
}
