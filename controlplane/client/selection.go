package client

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/schema"
)

// matches says whether the options select an object.
func matches(o schema.Object, opt ListOptions) bool {
	if opt.Namespace != "" && o.GetNamespace() != opt.Namespace {
		return false
	}
	if opt.Labels != nil && !opt.Labels.Matches(labels.Set(o.GetLabels())) {
		return false
	}
	return opt.Fields == nil || opt.Fields.Empty() || matchesFields(o, opt.Fields)
}

// matchesFields compares each required field with the object's.
func matchesFields(o schema.Object, sel fields.Selector) bool {
	var content map[string]any
	set := fields.Set{}
	for _, req := range sel.Requirements() {
		switch req.Field {
		case "metadata.name":
			set[req.Field] = o.GetName()
		case "metadata.namespace":
			set[req.Field] = o.GetNamespace()
		default:
			if content == nil {
				m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
				if err != nil {
					return false
				}
				content = m
			}
			set[req.Field] = fieldText(content, req.Field)
		}
	}
	return sel.Matches(set)
}

// fieldText finds "spec.nodeName" in the JSON form of an object; "" if absent.
func fieldText(content map[string]any, path string) string {
	var v any = content
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

func sortByKey(objects []schema.Object) {
	slices.SortFunc(objects, func(a, b schema.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// IndexValue returns the value of an object under an index; "" for none.
func IndexValue(o schema.Object, index string) string {
	switch index {
	case IndexOwner:
		if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
			return string(ref.UID)
		}
	case IndexOrphan:
		switch o.(type) {
		case *corev1.Pod, *appsv1.ReplicaSet:
			if metav1.GetControllerOfNoCopy(o) == nil {
				return o.GetNamespace()
			}
		}
	case IndexNode:
		if p, ok := o.(*corev1.Pod); ok {
			return p.Spec.NodeName
		}
	}
	return ""
}
