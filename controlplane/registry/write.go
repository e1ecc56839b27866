package registry

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// write is one write on its way through the rules, over an overlay.
type write struct {
	g       *Registry
	o       *overlay
	r       *schema.Resource
	rule    *rule
	user    user.Info
	verb    string
	sub     string
	key     schema.Key
	manager string
	dryRun  bool
	// apply says that managedFields have been set already, by an apply.
	apply bool
}

func (g *Registry) newWrite(ctx context.Context, o *overlay, verb string, r *schema.Resource, sub string, key schema.Key, manager string, dryRun bool) *write {
	u, ok := request.UserFrom(ctx)
	if !ok {
		u = &user.DefaultInfo{}
	}
	if manager == "" {
		manager = u.GetName()
	}
	return &write{g: g, o: o, r: r, rule: g.rule(r), user: u, verb: verb, sub: sub, key: key, manager: manager, dryRun: dryRun}
}

// create admits a new object, which it owns.
func (w *write) create(ctx context.Context, o schema.Object) (*entry, error) {
	o.GetObjectKind().SetGroupVersionKind(w.r.GVK())
	if !w.apply {
		defaults.Apply(o)
		if err := w.g.fields.update(w.r, "", nil, o, w.manager); err != nil {
			return nil, err
		}
	}
	dedupOwners(o)
	a := w.attributes(o, nil)
	if err := w.g.mutate(ctx, a); err != nil {
		return nil, err
	}
	o = a.Object
	w.rule.prepareCreate(w.r, o)
	if err := w.g.validateCreate(w, o); err != nil {
		return nil, err
	}
	if w.rule.allocate != nil {
		if err := invalid(w.r, o.GetName(), w.rule.allocate(w, o, nil)); err != nil {
			return nil, err
		}
	}
	if err := w.g.validate(ctx, w.attributes(o, nil)); err != nil {
		return nil, err
	}
	return w.o.put(w.r, w.key, o), nil
}

// fillMeta gives a new object what the server sets.
func fillMeta(o schema.Object) {
	o.SetUID(uuid.NewUUID())
	o.SetCreationTimestamp(now())
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	o.SetSelfLink("")
	o.SetResourceVersion("")
}

// now is the time as the API shows it, in seconds.
func now() metav1.Time { return metav1.Now().Rfc3339Copy() }

// update admits the new state of an object, which it owns.
func (w *write) update(ctx context.Context, o, old schema.Object) (*entry, error) {
	if err := w.preconditions(o, old); err != nil {
		return nil, err
	}
	o.GetObjectKind().SetGroupVersionKind(w.r.GVK())
	o.SetResourceVersion(old.GetResourceVersion())
	if !w.apply {
		defaults.Apply(o)
		if err := w.g.fields.update(w.r, w.sub, old, o, w.manager); err != nil {
			return nil, err
		}
	}
	dedupOwners(o)
	a := w.attributes(o, old)
	if err := w.g.mutate(ctx, a); err != nil {
		return nil, err
	}
	o = a.Object
	keepMeta(o, old)
	w.rule.prepareUpdate(w.r, w.sub, o, old)
	same := unchanged(o, old)
	if !same { // what is stored has been found valid before
		if err := w.g.validateUpdate(w, o, old); err != nil {
			return nil, err
		}
	}
	if w.rule.allocate != nil && w.sub == "" {
		if err := invalid(w.r, o.GetName(), w.rule.allocate(w, o, old)); err != nil {
			return nil, err
		}
	}
	if err := w.g.validate(ctx, w.attributes(o, old)); err != nil {
		return nil, err
	}
	if w.ended(o) {
		return w.finish(o), nil
	}
	if same {
		return w.o.entry(w.r, w.key), nil
	}
	return w.o.put(w.r, w.key, o), nil
}

// preconditions checks what the new state says of the state it was made from.
func (w *write) preconditions(o, old schema.Object) error {
	if uid := o.GetUID(); uid != "" && uid != old.GetUID() {
		return apierrors.NewConflict(w.r.GroupResource(), w.key.Name, fmt.Errorf( //nolint:staticcheck // upstream's text
			"Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, old.GetUID()))
	}
	switch v := o.GetResourceVersion(); {
	case v == "" && w.rule.conditional:
		return invalidVersion(w.r, w.key.Name)
	case v != "" && v != "0" && v != old.GetResourceVersion():
		return conflictError(w.r, w.key.Name)
	}
	return nil
}

// unchanged says whether an update would store what is stored: a write that
// says nothing new makes no event. Times of managedFields do not count.
func unchanged(o, old schema.Object) bool {
	fields := o.GetManagedFields()
	if !sameFields(fields, old.GetManagedFields()) {
		return false
	}
	o.SetManagedFields(old.GetManagedFields())
	if apiequality.Semantic.DeepEqual(o, old) {
		return true
	}
	o.SetManagedFields(fields)
	return false
}

// dedupOwners drops owner references that say the same twice.
func dedupOwners(o metav1.Object) {
	refs := o.GetOwnerReferences()
	if len(refs) < 2 {
		return
	}
	out := refs[:0:0]
	for i, ref := range refs {
		twice := false
		for _, before := range refs[:i] {
			twice = twice || apiequality.Semantic.DeepEqual(before, ref)
		}
		if !twice {
			out = append(out, ref)
		}
	}
	if len(out) < len(refs) {
		o.SetOwnerReferences(out)
	}
}
