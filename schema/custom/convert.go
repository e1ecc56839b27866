package custom

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/writ-os/writ/schema"
)

// convert brings objects of any version of the definition to one version, in
// order. Objects that have it come back as they are; the others are copies.
//
// What is left behind is pruned and defaulted in its own version first, as
// upstream does with what it reads from its store.
func (d *definition) convert(ctx context.Context, in []schema.Object, to string) ([]schema.Object, error) {
	target := d.versions[to]
	out := make([]schema.Object, len(in))
	var pending []*unstructured.Unstructured
	var at []int
	for i, o := range in {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("convert %s: a %T is no custom resource", d.def.Name, o)
		}
		gv := u.GroupVersionKind().GroupVersion()
		from := d.versions[gv.Version]
		switch {
		case gv.Group != d.def.Spec.Group || from == nil:
			return nil, fmt.Errorf("request to convert CR from an invalid group/version: %s", gv)
		case target == nil:
			return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s/%s", d.def.Spec.Group, to)
		case from == target:
			out[i] = o
			continue
		}
		c := u.DeepCopy()
		from.Prune(c.Object)
		from.Default(c.Object)
		pending, at = append(pending, c), append(at, i)
	}
	if len(pending) == 0 {
		return out, nil
	}
	converted, err := d.toVersion(ctx, pending, target)
	if err != nil {
		return nil, err
	}
	for n, i := range at {
		target.Prune(converted[n].Object)
		out[i] = converted[n]
	}
	return out, nil
}

// toVersion converts objects that are the caller's own.
func (d *definition) toVersion(ctx context.Context, in []*unstructured.Unstructured, target *Version) ([]*unstructured.Unstructured, error) {
	c := d.def.Spec.Conversion
	if c == nil || c.Strategy == "" || c.Strategy == apiextensionsv1.NoneConverter {
		for _, u := range in {
			u.SetAPIVersion(target.apiVersion)
		}
		return in, nil
	}
	if c.Strategy != apiextensionsv1.WebhookConverter || c.Webhook == nil {
		return nil, fmt.Errorf("unknown conversion strategy %q for CRD %s", c.Strategy, d.def.Name)
	}
	if d.post == nil {
		return nil, errorOf(in, errors.New("nobody calls webhooks here"))
	}
	return d.askWebhook(ctx, in, target, c.Webhook.ConversionReviewVersions)
}
