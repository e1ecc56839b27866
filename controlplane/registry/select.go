package registry

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// FieldValue returns what a field selector compares: the value of a selectable
// field of the object as text. ok is false for a field that the resource does
// not let select.
func FieldValue(r *schema.Resource, o schema.Object, path string) (value string, ok bool) {
	switch path {
	case "metadata.name":
		return o.GetName(), true
	case "metadata.namespace":
		return o.GetNamespace(), true
	}
	if !slices.Contains(r.SelectableFields, path) {
		return "", false
	}
	if p, isPod := o.(*corev1.Pod); isPod { // the selectors of every node and of the scheduler
		switch path {
		case "spec.nodeName":
			return p.Spec.NodeName, true
		case "status.phase":
			return string(p.Status.Phase), true
		}
	}
	if e, isEvent := o.(*corev1.Event); isEvent && path == "source" {
		return cmp.Or(e.Source.Component, e.ReportingController), true
	}
	return valueAt(o, path), true
}

// valueAt finds "spec.nodeName" in the JSON form of an object; "" if absent.
func valueAt(o schema.Object, path string) string {
	var v any
	if u, ok := o.(*unstructured.Unstructured); ok {
		v = u.Object
	} else if content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o); err == nil {
		v = content
	}
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return ""
		}
		v = m[name]
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// CheckFields refuses a field selector that names a field which the resource
// does not let select.
func CheckFields(r *schema.Resource, sel fields.Selector) error {
	if sel == nil {
		return nil
	}
	for _, req := range sel.Requirements() {
		if req.Field != "metadata.name" && req.Field != "metadata.namespace" && !slices.Contains(r.SelectableFields, req.Field) {
			return apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", req.Field))
		}
	}
	return nil
}

// Matches says whether the options select an object.
func Matches(r *schema.Resource, o schema.Object, opt client.ListOptions) bool {
	if opt.Namespace != "" && o.GetNamespace() != opt.Namespace {
		return false
	}
	if opt.Labels != nil && !opt.Labels.Empty() && !opt.Labels.Matches(labels.Set(o.GetLabels())) {
		return false
	}
	if opt.Fields == nil || opt.Fields.Empty() {
		return true
	}
	for _, req := range opt.Fields.Requirements() {
		v, _ := FieldValue(r, o, req.Field)
		if (v == req.Value) != (req.Operator != "!=") {
			return false
		}
	}
	return true
}

// Select yields the items of a snapshot that the options select, by way of an
// index where one helps.
func Select(s store.Snapshot, r *schema.Resource, opt client.ListOptions) iter.Seq[*store.Item] {
	return func(yield func(*store.Item) bool) {
		for it := range candidates(s, opt) {
			if Matches(r, it.Object, opt) && !yield(it) {
				return
			}
		}
	}
}

func candidates(s store.Snapshot, opt client.ListOptions) iter.Seq[*store.Item] {
	if opt.Fields != nil {
		if name, ok := opt.Fields.RequiresExactMatch("metadata.name"); ok && opt.Namespace != "" {
			return func(yield func(*store.Item) bool) {
				if it := s.Get(schema.Key{Namespace: opt.Namespace, Name: name}); it != nil {
					yield(it)
				}
			}
		}
		if node, ok := opt.Fields.RequiresExactMatch("spec.nodeName"); ok && node != "" {
			return s.Index(store.IndexNode, node)
		}
	}
	if opt.Namespace != "" {
		return s.Namespace(opt.Namespace)
	}
	return s.All()
}

func collect(seq iter.Seq[*store.Item]) []schema.Object {
	var out []schema.Object
	for it := range seq {
		out = append(out, it.Object)
	}
	return out
}

func sortByKey(objects []schema.Object) {
	slices.SortFunc(objects, func(a, b schema.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}
