package registry

import (
	"context"
	"fmt"
	"strconv"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
	"github.com/writ-os/writ/schema/kind/valid"
	"github.com/writ-os/writ/schema/support"
)

// write is one write on its way through the rules, over an overlay.
type write struct {
	g       *Registry
	o       *overlay
	r       *schema.Resource // of the objects that the rules work on
	req     *schema.Resource // as the request names it
	rule    *rule
	user    user.Info
	verb    string
	sub     string
	key     schema.Key
	manager string
	dryRun  bool
	asked   client.WriteOptions
	// apply says that managedFields have been set already, by an apply.
	apply bool
	// patch says that the object is the old one with some changes: it demands no
	// UID.
	patch bool
	// scaled says that admission sees the scale of the object, and has changed
	// it already.
	scaled bool
	// version is the resourceVersion that a new object came with.
	version string
	// deletion are the options of a delete.
	deletion *client.DeleteOptions
}

func (g *Registry) newWrite(ctx context.Context, o *overlay, verb string, r *schema.Resource, sub string, key schema.Key, opt client.WriteOptions) *write {
	u, ok := request.UserFrom(ctx)
	if !ok {
		u = &user.DefaultInfo{}
	}
	manager := opt.FieldManager
	if manager == "" {
		manager = u.GetName()
	}
	return &write{g: g, o: o, r: working(r), req: r, rule: g.rule(r), user: u, verb: verb, sub: sub, key: key, manager: manager, dryRun: opt.DryRun, asked: opt}
}

// create admits a new object, which it owns.
func (w *write) create(ctx context.Context, o schema.Object) (*entry, error) {
	o.GetObjectKind().SetGroupVersionKind(w.r.GVK())
	w.normal(o)
	if !w.apply {
		defaults.Apply(o)
		if err := w.g.fields.update(ctx, w.req, "", nil, o, w.manager); err != nil {
			return nil, err
		}
	}
	o, err := w.mutate(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	if err := w.begin(ctx, o, nil); err != nil {
		return nil, err
	}
	w.rule.prepareCreate(w.r, o)
	if err := w.g.validateCreate(ctx, w, o); err != nil {
		return nil, err
	}
	w.warn(ctx, o, nil)
	if w.rule.allocate != nil {
		if err := invalid(w.r, o.GetName(), w.rule.allocate(w, o, nil)); err != nil {
			return nil, err
		}
	}
	if err := w.g.validate(ctx, w.attributes(o, nil)); err != nil {
		return nil, err
	}
	if err := w.isNew(); err != nil {
		return nil, err
	}
	return w.put(ctx, o)
}

// isNew refuses to create what there is. That comes last, as upstream finds it
// out when it stores: what is wrong with an object is said first.
func (w *write) isNew() error {
	switch {
	case w.version != "" && w.version != "0":
		return errVersionOnCreate
	case w.o.get(w.r, w.key) != nil:
		return alreadyExists(w.req, w.key.Name)
	}
	return nil
}

// warn tells the client what the rules of the kind say of a valid state.
func (w *write) warn(ctx context.Context, o, old schema.Object) {
	if w.sub != "" || trusted(w.user) {
		return
	}
	if w.rule.Warnings != nil {
		for _, text := range w.rule.Warnings(o, old) {
			warning.AddWarning(ctx, "", text)
		}
	}
	for _, f := range newly(support.Warn, o, old) {
		warning.AddWarning(ctx, "", f.Warning())
	}
}

func (w *write) begin(ctx context.Context, o, old schema.Object) error {
	if w.sub != "" {
		return nil
	}
	if w.rule.Complete != nil {
		if err := invalid(w.r, o.GetName(), w.rule.Complete(o, old)); err != nil {
			return err
		}
	}
	if w.rule.begin == nil {
		return nil
	}
	return w.rule.begin(ctx, w, o, old)
}

func (w *write) normal(o schema.Object) {
	if w.rule.Normalize != nil {
		w.rule.Normalize(o)
	}
}

// mutate lets admission change an object, and brings it into order again.
func (w *write) mutate(ctx context.Context, o, old schema.Object) (schema.Object, error) {
	dedupOwners(o)
	a := w.attributes(o, old)
	if err := w.g.mutate(ctx, a); err != nil {
		return nil, err
	}
	o = a.Object
	if u, ok := o.(*unstructured.Unstructured); ok && w.r.Custom != nil {
		complete(w.r, u)
	}
	dedupOwners(o)
	return o, nil
}

// validate lets admission refuse the new state of an object.
func (w *write) validate(ctx context.Context, o, old schema.Object) error {
	if w.scaled {
		is, _, err := scaleOf(w.r, o)
		if err != nil {
			return err
		}
		was, _, err := scaleOf(w.r, old)
		if err != nil {
			return err
		}
		o, old = is, was
	}
	return w.g.validate(ctx, w.attributes(o, old))
}

// put stores an admitted object in the overlay.
func (w *write) put(ctx context.Context, o schema.Object) (*entry, error) {
	o, err := intoStored(ctx, w.r, o)
	if err != nil {
		return nil, err
	}
	return w.o.put(w.r, w.key, o), nil
}

// fillMeta gives a new object what the server sets.
func fillMeta(o schema.Object) {
	o.SetUID(uuid.NewUUID())
	o.SetCreationTimestamp(valid.Now())
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	o.SetSelfLink("")
	o.SetResourceVersion("")
}

// update admits the new state of an object, which it owns.
func (w *write) update(ctx context.Context, o, old schema.Object) (*entry, error) {
	if err := w.preconditions(o, old); err != nil {
		return nil, err
	}
	o.GetObjectKind().SetGroupVersionKind(w.r.GVK())
	o.SetResourceVersion(old.GetResourceVersion())
	w.normal(o)
	if !w.apply {
		defaults.Apply(o)
		if err := w.g.fields.update(ctx, w.req, w.sub, old, o, w.manager); err != nil {
			return nil, err
		}
	}
	if !w.scaled {
		var err error
		if o, err = w.mutate(ctx, o, old); err != nil {
			return nil, err
		}
	}
	keepMeta(o, old)
	if err := w.begin(ctx, o, old); err != nil {
		return nil, err
	}
	w.rule.prepareUpdate(w.r, w.sub, o, old)
	same := unchanged(o, old)
	if !same { // what is stored has been found valid before
		if err := w.g.validateUpdate(ctx, w, o, old); err != nil {
			return nil, err
		}
	}
	w.warn(ctx, o, old)
	if w.rule.allocate != nil && w.sub == "" {
		if err := invalid(w.r, o.GetName(), w.rule.allocate(w, o, old)); err != nil {
			return nil, err
		}
	}
	if err := w.validate(ctx, o, old); err != nil {
		return nil, err
	}
	if w.ended(o) {
		e, err := w.finish(ctx, o)
		if err == nil {
			e.own = true
		}
		return e, err
	}
	if same {
		return w.o.entry(w.r, w.key), nil
	}
	return w.put(ctx, o)
}

// preconditions checks what the new state says of the state it was made from.
func (w *write) preconditions(o, old schema.Object) error {
	if uid := o.GetUID(); uid != "" && uid != old.GetUID() && !w.patch {
		return apierrors.NewConflict(w.r.GroupResource(), w.key.Name, fmt.Errorf( //nolint:staticcheck // upstream's text
			"StorageError: invalid object, Code: 4, Key: /registry/%s/%v, ResourceVersion: 0, AdditionalErrorMsg: "+
				"Precondition failed: UID in precondition: %v, UID in object meta: %v", w.r.Stored().StoragePrefix, w.key, uid, old.GetUID()))
	}
	if v := o.GetResourceVersion(); v != "" {
		if _, err := strconv.ParseUint(v, 10, 64); err != nil {
			return err // upstream: no answer of the API, an internal error
		}
	}
	switch v := o.GetResourceVersion(); {
	case v == "" && w.rule.Conditional:
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
