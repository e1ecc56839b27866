// Package request shows a write as upstream's admission sees it: with the
// kinds, names, operations and options of the wire, and its objects in every
// version of their kind. Webhooks and policies are asked with it.
//
// It watches nothing and owns nothing. A Request belongs to one write and one
// goroutine; what it hands out must not be changed.
package request

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// Request is one write.
type Request struct {
	admission.Attributes
	// Write is what the registry asks about.
	Write *registry.Attributes

	catalog *schema.Catalog
	// versions are the attributes by kind, made when first asked for.
	versions map[kschema.GroupVersionKind]*admission.VersionedAttributes
}

// New returns the request of a write. catalog nil means the table alone.
func New(a *registry.Attributes, catalog *schema.Live) *Request {
	r := &Request{Write: a, catalog: catalog.Load(), versions: map[kschema.GroupVersionKind]*admission.VersionedAttributes{}}
	row := r.row()
	kind := row.GVK()
	object, old := convertible(a.Object), convertible(a.Old)
	if object == nil && a.Verb == "connect" && a.Options != nil {
		object = a.Options
	}
	if k, ok := foreign(row, object); ok {
		kind = k
	}
	namespace := a.Key.Namespace
	if row.Group == "" && row.Plural == "namespaces" {
		namespace = a.Key.Name // as upstream: a namespace is in itself
	}
	u := a.User
	if u == nil {
		u = &user.DefaultInfo{}
	}
	r.Attributes = admission.NewAttributesRecord(object, old, kind, namespace, a.Key.Name, row.GVR(), a.Subresource,
		operation(a.Verb), options(a), a.DryRun, u)
	return r
}

// row is the resource that was asked for.
func (r *Request) row() *schema.Resource {
	if r.Write.Request != nil {
		return r.Write.Request
	}
	return r.Write.Resource
}

// convertible makes an untyped nil of a nil object.
func convertible(o schema.Object) runtime.Object {
	if o == nil {
		return nil
	}
	return o
}

// foreign returns the kind of what is posted to a subresource, where that is
// not the kind of the resource: a Binding, a Scale, exec's options.
func foreign(r *schema.Resource, o runtime.Object) (kschema.GroupVersionKind, bool) {
	if o == nil {
		return kschema.GroupVersionKind{}, false
	}
	gvk := o.GetObjectKind().GroupVersionKind()
	if gvk.Empty() {
		if kinds, _, err := schema.Scheme.ObjectKinds(o); err == nil && len(kinds) > 0 {
			gvk = kinds[0]
		}
	}
	return gvk, !gvk.Empty() && (gvk.Kind != r.Kind || gvk.Group != r.Group && r.Stored().Group != gvk.Group)
}

func operation(verb string) admission.Operation { return admission.Operation(strings.ToUpper(verb)) }

// options are those of the operation: a patch comes as the create or update
// that it amounts to.
func options(a *registry.Attributes) runtime.Object {
	var dryRun []string
	if a.DryRun {
		dryRun = []string{metav1.DryRunAll}
	}
	validation := ""
	switch o := a.Options.(type) {
	case *metav1.CreateOptions, *metav1.UpdateOptions, *metav1.DeleteOptions:
		return withKind(o)
	case *metav1.PatchOptions:
		dryRun, validation = o.DryRun, o.FieldValidation
	}
	switch a.Verb {
	case "create":
		return withKind(&metav1.CreateOptions{DryRun: dryRun, FieldManager: a.FieldManager, FieldValidation: validation})
	case "update":
		return withKind(&metav1.UpdateOptions{DryRun: dryRun, FieldManager: a.FieldManager, FieldValidation: validation})
	case "delete":
		return withKind(&metav1.DeleteOptions{DryRun: dryRun})
	}
	return nil
}

// withKind returns options that say what they are, as the wire wants.
func withKind(o runtime.Object) runtime.Object {
	o = o.DeepCopyObject()
	kind := strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")
	o.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(kind))
	return o
}

// Equivalents are the resources that keep the same objects as the one that was
// asked for: its other versions.
func (r *Request) Equivalents() []*schema.Resource {
	stored := r.row().Stored()
	var out []*schema.Resource
	for _, other := range r.catalog.All() {
		if other != r.row() && other.Stored() == stored {
			out = append(out, other)
		}
	}
	return out
}

// KindOf is the kind of the request where it is asked for as another resource.
func (r *Request) KindOf(other *schema.Resource) kschema.GroupVersionKind {
	if k, ok := foreign(r.row(), r.GetObject()); ok {
		return k
	}
	return other.GVK()
}

// As returns the attributes with the objects in the version of a kind.
func (r *Request) As(ctx context.Context, gvk kschema.GroupVersionKind) (*admission.VersionedAttributes, error) {
	if v := r.versions[gvk]; v != nil {
		return v, nil
	}
	v := &admission.VersionedAttributes{Attributes: r.Attributes, VersionedKind: gvk}
	var err error
	if v.VersionedObject, err = r.convert(ctx, r.GetObject(), gvk); err != nil {
		return nil, err
	}
	if v.VersionedOldObject, err = r.convert(ctx, r.GetOldObject(), gvk); err != nil {
		return nil, err
	}
	r.versions[gvk] = v
	return v, nil
}

// convert brings an object to the version of a kind; what is no version of it
// (a Binding) and nil stay as they are.
func (r *Request) convert(ctx context.Context, o runtime.Object, gvk kschema.GroupVersionKind) (runtime.Object, error) {
	obj, ok := o.(schema.Object)
	if !ok || obj.GetObjectKind().GroupVersionKind() == gvk {
		return o, nil
	}
	row := r.catalog.ByGVK(gvk)
	if row == nil || row.Convert == nil {
		return o, nil
	}
	out, err := row.Convert(ctx, []schema.Object{obj})
	if err != nil {
		return nil, fmt.Errorf("convert %s to %s: %w", obj.GetName(), gvk, err)
	}
	return out[0], nil
}

// Changed makes a new state of the object, in any version of its kind, the one
// that is written. The Request is over with it: make another for the next
// question.
func (r *Request) Changed(ctx context.Context, o schema.Object) error {
	back, err := r.convert(ctx, o, r.Write.Object.GetObjectKind().GroupVersionKind())
	if err != nil {
		return err
	}
	r.Write.Object = back.(schema.Object)
	return nil
}

// Exempt says whether a write is of what configures admission itself, which
// must always be possible to mend.
func Exempt(res *schema.Resource) bool {
	return res.Group == "admissionregistration.k8s.io" && slices.Contains(exempt, res.Kind)
}

var exempt = []string{
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
}
