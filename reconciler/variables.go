package reconciler

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// options are how a tree is rendered for this cluster, or the variables that
// are missing.
func (w World) options() (render.Options, []v1alpha1.Finding) {
	o := w.Render
	if o.Kinds == nil && w.Kinds != nil {
		o.Kinds = w.Kinds
	}
	if o.Open == nil {
		keys, missing := w.keys()
		o.Open = opener(keys)
		if len(missing) > 0 {
			o.Open = locked(missing)
		}
	}
	if o.Variables != nil || w.Spec == nil {
		return o, nil
	}
	vars, missing := Variables(w.Spec, w.Live)
	o.Variables = vars
	return o, missing
}

// Variables are the values of ${name} that a Repository sets: those of
// variablesFrom, in their order, and its own over all. nil: it sets none, and
// text is left as it is. What is named and not there is a finding.
func Variables(spec *v1alpha1.RepositorySpec, live plan.Live) (map[string]string, []v1alpha1.Finding) {
	if spec.Variables == nil && len(spec.VariablesFrom) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	var missing []v1alpha1.Finding
	for i, from := range spec.VariablesFrom {
		kind, name := "ConfigMap", from
		if rest, ok := strings.CutPrefix(from, "secret:"); ok {
			kind, name = "Secret", rest
		}
		key, o, found := schema.Key{}, schema.Object(nil), false
		if namespace, base, ok := strings.Cut(name, "/"); ok {
			key = schema.Key{Namespace: namespace, Name: base}
			o, found = live.Get(schema.ByGVK(kschema.GroupVersionKind{Version: "v1", Kind: kind}), key)
		}
		switch o := o.(type) {
		case *corev1.ConfigMap:
			maps.Copy(out, o.Data)
		case *corev1.Secret:
			for name, data := range o.Data {
				out[name] = string(data)
			}
		default:
			found = false
		}
		if !found {
			missing = append(missing, v1alpha1.Finding{Rule: "Variable", Object: render.ObjectName(kind, key), Field: fmt.Sprintf("spec.variablesFrom[%d]", i),
				Message: fmt.Sprintf("the variables of the cluster are in %s %s, which is not there", kind, name),
				Hint:    "create it in the cluster, or take it out of the Repository's variablesFrom (namespace/name, or secret:namespace/name)"})
		}
	}
	maps.Copy(out, spec.Variables)
	return out, missing
}
