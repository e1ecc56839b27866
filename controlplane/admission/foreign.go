package admission

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
	"github.com/writ-os/writ/schema/merge"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// foreignTo returns what a write changes of a declared object although Git
// leaves it out, where that would be to change what Git declares:
//
//   - anything of its pods: one more container, a command or hostNetwork make
//     another program of it;
//   - an owner: the garbage collector, and whoever adopts, delete by owners.
//
// Parts of this process never change templates of their own, only what webhooks
// make of their writes.
func foreignTo(a *registry.Attributes, owned, differ *fieldpath.Set) (*fieldpath.Set, error) {
	out := owners(a.Old, a.Object, owned)
	at := podsAt(a.Resource)
	if at == nil || a.Subresource == "status" || identity.InProcess(a.User) || !within(differ, at) {
		return out, nil
	}
	// What an older version has stored may lack defaults of this one, which
	// every write adds.
	old := a.Old.DeepCopyObject().(schema.Object)
	defaults.Apply(old)
	differ, err := differing(a.Resource, old, a.Object)
	if err != nil {
		return nil, err
	}
	return out.Union(choose(differ, func(p fieldpath.Path) bool { return under(p, at) && !owned.Has(p) })), nil
}

// podsAt is where an object says what its pods are; nil for what makes none.
func podsAt(r *schema.Resource) fieldpath.Path {
	switch {
	case r.Group == "" && r.Kind == "Pod":
		return fieldpath.MakePathOrDie("spec")
	case r.Group == "" && r.Kind == "PodTemplate":
		return fieldpath.MakePathOrDie("template")
	case r.Group == "batch" && r.Kind == "CronJob":
		return fieldpath.MakePathOrDie("spec", "jobTemplate")
	case r.Group == "" && r.Kind == "ReplicationController", r.Group == "batch" && r.Kind == "Job",
		r.Group == "apps" && r.Kind != "ControllerRevision":
		return fieldpath.MakePathOrDie("spec", "template")
	}
	return nil
}

// owners returns the references of object to owners that old has not, or has
// otherwise, and that Git does not declare.
func owners(old, object metav1.Object, owned *fieldpath.Set) *fieldpath.Set {
	out := fieldpath.NewSet()
	was := old.GetOwnerReferences()
	for _, ref := range object.GetOwnerReferences() {
		path := ownerPath(ref)
		same := slices.ContainsFunc(was, func(o metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(o, ref) })
		if !same && !declares(owned, path) {
			out.Insert(path)
		}
	}
	return out
}

func ownerPath(ref metav1.OwnerReference) fieldpath.Path {
	return fieldpath.MakePathOrDie("metadata", "ownerReferences", fieldpath.KeyByFields("uid", string(ref.UID)))
}

// declares says whether Git declares a field, or anything in it.
func declares(owned *fieldpath.Set, p fieldpath.Path) bool {
	return owned.Has(p) || within(owned, p)
}

// within says whether a set has anything below a path.
func within(s *fieldpath.Set, p fieldpath.Path) bool {
	for _, e := range p {
		s = s.WithPrefix(e)
	}
	return !s.Empty()
}

func under(p, above fieldpath.Path) bool {
	return len(p) >= len(above) && p[:len(above)].Equals(above)
}

func choose(s *fieldpath.Set, want func(fieldpath.Path) bool) *fieldpath.Set {
	out := fieldpath.NewSet()
	s.Iterate(func(p fieldpath.Path) {
		if want(p) {
			out.Insert(p.Copy())
		}
	})
	return out
}

// ignored are the fields that the repository of a place leaves to others
// (spec.ignore).
func (p place) ignored(c client.Cache, r *schema.Resource, key schema.Key) []merge.Pointer {
	repo, ok := client.Cached[*v1alpha1.Repository](c, schema.Key{Name: p.inventory.Spec.Repository})
	if !ok {
		return nil
	}
	return merge.Ignored(repo.Spec.Ignore, r.Kind, key)
}

// without takes out of a set what pointers cover.
func without(s *fieldpath.Set, pointers []merge.Pointer) *fieldpath.Set {
	if len(pointers) == 0 {
		return s
	}
	return choose(s, func(p fieldpath.Path) bool {
		return !slices.ContainsFunc(pointers, func(x merge.Pointer) bool { return x.Covers(p) })
	})
}
