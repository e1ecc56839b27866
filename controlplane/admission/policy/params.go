package policy

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// paramResource finds the resource of a parameter kind; nil for no kind.
func paramResource(c *schema.Catalog, p *admissionv1.ParamKind) (*schema.Resource, error) {
	if p == nil {
		return nil, nil
	}
	gv, err := kschema.ParseGroupVersion(p.APIVersion)
	if err == nil {
		if r := c.ByGVK(gv.WithKind(p.Kind)); r != nil {
			return r, nil
		}
	}
	return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", kindString(p))
}

// collectParams returns the objects with which a policy is to be evaluated:
// one nil where it takes none, nothing where there are none and that is
// allowed.
func collectParams(ctx context.Context, c client.Cache, r *schema.Resource, ref *admissionv1.ParamRef, namespace string) ([]runtime.Object, error) {
	if r == nil || ref == nil {
		return []runtime.Object{nil}, nil
	}
	switch {
	case !r.Namespaced && ref.Namespace != "":
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case !r.Namespaced:
		namespace = ""
	case ref.Namespace != "":
		namespace = ref.Namespace
	case namespace == "":
		return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	}
	found, err := findParams(c, r, ref, namespace)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionv1.DenyAction {
		return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	if r.Convert != nil && len(found) > 0 {
		if found, err = r.Convert(ctx, found); err != nil {
			return nil, err
		}
	}
	out := make([]runtime.Object, len(found))
	for i, o := range found {
		out[i] = o
	}
	return out, nil
}

func findParams(c client.Cache, r *schema.Resource, ref *admissionv1.ParamRef, namespace string) ([]schema.Object, error) {
	switch {
	case ref.Name != "" && ref.Selector != nil:
		return nil, errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	case ref.Name != "":
		if o, ok := c.Get(r.Stored(), schema.Key{Namespace: namespace, Name: ref.Name}); ok {
			return []schema.Object{o}, nil
		}
		return nil, nil
	case ref.Selector == nil:
		return nil, errors.New("one of name or selector must be provided")
	}
	sel, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return nil, err
	}
	var out []schema.Object
	for _, o := range c.List(r.Stored(), namespace) {
		if sel.Matches(labels.Set(o.GetLabels())) {
			out = append(out, o)
		}
	}
	return out, nil
}
