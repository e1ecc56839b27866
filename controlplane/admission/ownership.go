package admission

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/merge"
)

// GitManager is the field manager of what Git declares.
const GitManager = "writ"

// gitFields returns which fields of an object Git declares; nil when none.
func gitFields(o metav1.Object) *metav1.FieldsV1 {
	fields := o.GetManagedFields()
	for i := range fields {
		if f := &fields[i]; f.Manager == GitManager && f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == "" {
			return f.FieldsV1
		}
	}
	return nil
}

func fieldSet(f *metav1.FieldsV1) (*fieldpath.Set, error) {
	s := fieldpath.NewSet()
	if f == nil {
		return s, nil
	}
	if err := s.FromJSON(bytes.NewReader(f.GetRawBytes())); err != nil {
		return nil, fmt.Errorf("read managedFields of Git: %w", err)
	}
	return s, nil
}

// touched returns the fields that Git declares in old and whose values object
// changes or leaves out, and the fields that object takes from Git's record or
// adds to it: without the record the next write would go unseen. Foreign are
// fields that Git leaves out and is asked for all the same (foreign.go).
func touched(a *registry.Attributes) (owned, foreign *fieldpath.Set, err error) {
	before, after := gitFields(a.Old), gitFields(a.Object)
	none := fieldpath.NewSet()
	if before == nil && after == nil {
		return none, none, nil
	}
	owned, err = fieldSet(before)
	if err != nil {
		return nil, nil, err
	}
	differ, err := differing(a.Resource, a.Old, a.Object)
	if err != nil {
		return nil, nil, err
	}
	found := differ.Intersection(owned)
	if before == nil || after == nil || !bytes.Equal(before.GetRawBytes(), after.GetRawBytes()) {
		claimed, err := fieldSet(after)
		if err != nil {
			return nil, nil, err
		}
		found = found.Union(owned.Difference(claimed)).Union(claimed.Difference(owned))
	}
	foreign, err = foreignTo(a, owned, differ)
	return found, foreign, err
}

// scaled returns the field that a new scale changes in its object, if Git
// declares it.
func scaled(a *registry.Attributes, stored schema.Object, scale *autoscalingv1.Scale) (*fieldpath.Set, error) {
	none := fieldpath.NewSet()
	was, ok := a.Old.(*autoscalingv1.Scale)
	if ok && was.Spec.Replicas == scale.Spec.Replicas {
		return none, nil
	}
	owned, err := fieldSet(gitFields(stored))
	if err != nil {
		return nil, err
	}
	steps := []any{"spec", "replicas"}
	if a.Request != nil && a.Request.Custom != nil { // the row that the store keeps has no paths
		spec, _, _ := a.Request.Custom.ScalePaths()
		steps = nil
		for _, s := range strings.Split(strings.TrimPrefix(spec, "."), ".") {
			steps = append(steps, s)
		}
	}
	path, err := fieldpath.MakePath(steps...)
	if err != nil || !owned.Has(path) {
		return none, err
	}
	return fieldpath.NewSet(path), nil
}

// differing returns the fields that have another value in object than in old, or
// are in one of them only.
func differing(r *schema.Resource, old, object schema.Object) (*fieldpath.Set, error) {
	types := merge.Types(r)
	a, errA := types.ObjectToTyped(old, typed.AllowDuplicates)
	b, errB := types.ObjectToTyped(object, typed.AllowDuplicates)
	if err := errors.Join(errA, errB); err != nil {
		return nil, fmt.Errorf("compare with what Git declares: %w", err)
	}
	c, err := a.Compare(b)
	if err != nil {
		return nil, fmt.Errorf("compare with what Git declares: %w", err)
	}
	return c.Added.Union(c.Modified).Union(c.Removed), nil
}

// sameMeta says whether two states of an object have the same metadata, as far
// as anybody can declare it.
func sameMeta(a, b metav1.Object) bool {
	x, y := gitFields(a), gitFields(b)
	return (x == nil) == (y == nil) && (x == nil || bytes.Equal(x.GetRawBytes(), y.GetRawBytes())) &&
		maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		slices.Equal(a.GetFinalizers(), b.GetFinalizers()) &&
		equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}

// names returns the fields of a set as people write them, those that hold
// others left out.
func names(s *fieldpath.Set) []string {
	var out []string
	s.Leaves().Iterate(func(p fieldpath.Path) {
		out = append(out, strings.TrimPrefix(p.String(), "."))
	})
	return out
}
