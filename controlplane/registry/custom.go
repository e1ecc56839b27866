package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
)

// customRule is the rule of custom resources. What their definitions say
// besides comes through schema.Custom.
var customRule = &rule{Kind: &kind.Kind{Generation: true, Conditional: true, Warnings: customWarnings}}

// prepareCustom brings a new custom resource into the state in which its life
// begins.
func prepareCustom(r *schema.Resource, u *unstructured.Unstructured) {
	if r.Status {
		delete(u.Object, "status")
	}
	u.SetGeneration(1)
}

// prepareCustomUpdate lets a change of a custom resource through the door it
// came by. Through the status door comes the status alone, with the fields that
// its manager owns.
func prepareCustomUpdate(r *schema.Resource, sub string, u, old *unstructured.Unstructured) {
	if sub == "status" {
		status, has := u.Object["status"]
		fields := u.GetManagedFields()
		*u = *old.DeepCopy()
		u.SetManagedFields(fields)
		delete(u.Object, "status")
		if has {
			u.Object["status"] = status
		}
		return
	}
	if r.Status {
		delete(u.Object, "status")
		if was, has := old.Object["status"]; has {
			u.Object["status"] = was
		}
	}
	if !apiequality.Semantic.DeepEqual(withoutMeta(u), withoutMeta(old)) {
		u.SetGeneration(old.GetGeneration() + 1)
	}
}

// withoutMeta is all of an object but its metadata.
func withoutMeta(u *unstructured.Unstructured) map[string]any {
	m := maps.Clone(u.Object)
	delete(m, "metadata")
	return m
}

// customErrors holds a change of a custom resource against its definition; one
// that came by the status door only against what is said of the status.
func customErrors(ctx context.Context, r *schema.Resource, sub string, u, old *unstructured.Unstructured) field.ErrorList {
	if v, ok := r.Custom.(interface {
		ValidateStatus(ctx context.Context, o, old *unstructured.Unstructured) field.ErrorList
	}); ok && sub == "status" {
		return v.ValidateStatus(ctx, u, old)
	}
	return r.Custom.Validate(ctx, u, old)
}

// customWarnings are what is said of finalizers without a domain, which built-in
// kinds refuse.
func customWarnings(o, old schema.Object) []string {
	var known []string
	if old != nil {
		known = old.GetFinalizers()
	}
	var out []string
	for _, f := range slices.Sorted(slices.Values(o.GetFinalizers())) {
		if !strings.Contains(f, "/") && !slices.Contains(known, f) {
			out = append(out, fmt.Sprintf(
				"metadata.finalizers: %q: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers", f))
		}
	}
	return out
}
