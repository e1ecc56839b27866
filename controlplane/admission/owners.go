package admission

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// Owners lets set owner references only who could delete the object, and block
// the deletion of an owner only who may set its finalizers: the plugin
// OwnerReferencesPermissionEnforcement, off by default.
type Owners struct {
	validates
	Authorizer authorizer.Authorizer
	Catalog    *schema.Live
}

var _ registry.Admission = (*Owners)(nil)

// Handles implements registry.Handler.
func (*Owners) Handles(verb string, r *schema.Resource, sub string) bool {
	return (verb == "create" || verb == "update") && !(sub == "status" && is(r, "", "pods"))
}

// Validate implements registry.Admission.
func (p *Owners) Validate(ctx context.Context, a *registry.Attributes) error {
	if a.Object == nil || p.Authorizer == nil {
		return nil
	}
	refs := a.Object.GetOwnerReferences()
	var old []metav1.OwnerReference
	if a.Old != nil {
		old = a.Old.GetOwnerReferences()
	}
	if slices.EqualFunc(refs, old, func(x, y metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(x, y) }) {
		return nil
	}
	if a.Verb != "create" {
		d, reason, err := p.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: a.User, Verb: "delete", Namespace: a.Key.Namespace, APIGroup: a.Resource.Group, APIVersion: a.Resource.Version,
			Resource: a.Resource.Plural, Subresource: a.Subresource, Name: a.Key.Name, ResourceRequest: true,
		})
		if d != authorizer.DecisionAllow {
			return forbidden(a, fmt.Errorf("cannot set an ownerRef on a resource you can't delete: %v, %v", reason, err)) //nolint:errorlint // shown, not handled
		}
	}
	return p.checkBlocking(ctx, a, newBlocking(refs, old))
}

// newBlocking are the references that block a deletion and did not before.
func newBlocking(refs, old []metav1.OwnerReference) []metav1.OwnerReference {
	blocks := func(r metav1.OwnerReference) bool { return r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion }
	var out []metav1.OwnerReference
	for _, r := range refs {
		if blocks(r) && !slices.ContainsFunc(old, func(o metav1.OwnerReference) bool { return o.UID == r.UID && blocks(o) }) {
			out = append(out, r)
		}
	}
	return out
}

func (p *Owners) checkBlocking(ctx context.Context, a *registry.Attributes, refs []metav1.OwnerReference) error {
	if len(refs) == 0 {
		return nil
	}
	finalize := authorizer.AttributesRecord{User: a.User, Verb: "update", Subresource: "finalizers", ResourceRequest: true}
	all := finalize
	all.APIGroup, all.APIVersion, all.Resource, all.Name = "*", "*", "*", "*"
	if d, _, _ := p.Authorizer.Authorize(ctx, all); d == authorizer.DecisionAllow {
		return nil
	}
	for _, ref := range refs {
		gv, err := kschema.ParseGroupVersion(ref.APIVersion)
		owner := p.Catalog.Load().ByGVK(gv.WithKind(ref.Kind))
		if err != nil || owner == nil {
			return forbidden(a, fmt.Errorf("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: no matches for kind %q in version %q",
				ref.APIVersion, ref.Kind, ref.Kind, ref.APIVersion))
		}
		one := finalize
		one.APIGroup, one.APIVersion, one.Resource, one.Name = owner.Group, owner.Version, owner.Plural, ref.Name
		if owner.Namespaced {
			one.Namespace = a.Key.Namespace
		}
		if d, reason, err := p.Authorizer.Authorize(ctx, one); d != authorizer.DecisionAllow {
			return forbidden(a, fmt.Errorf("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v", reason, err)) //nolint:errorlint // shown, not handled
		}
	}
	return nil
}
