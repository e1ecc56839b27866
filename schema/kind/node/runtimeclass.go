package node

import (
	"fmt"

	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// RuntimeClass is the judge of its kind.
var RuntimeClass = &kind.Kind{
	Resource:    schema.ResourceFor[*nodev1.RuntimeClass](),
	Conditional: true, CreateOnUpdate: true,
	Validate: func(o schema.Object) field.ErrorList { return runtimeErrors(o.(*nodev1.RuntimeClass)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return valid.Keep(field.NewPath("handler"), o.(*nodev1.RuntimeClass).Handler, old.(*nodev1.RuntimeClass).Handler)
	},
}

func runtimeErrors(c *nodev1.RuntimeClass) field.ErrorList {
	var errs field.ErrorList
	if c.Handler == "" {
		errs = append(errs, field.Required(field.NewPath("handler"), ""))
	} else {
		for _, msg := range validation.NameIsDNSLabel(c.Handler, false) {
			errs = append(errs, field.Invalid(field.NewPath("handler"), c.Handler, msg))
		}
	}
	if c.Overhead != nil {
		for name, q := range c.Overhead.PodFixed {
			if q.Sign() < 0 {
				errs = append(errs, field.Invalid(field.NewPath("overhead", "limits").Key(string(name)), q.String(), validation.IsNegativeErrorMsg))
			}
		}
	}
	if c.Scheduling == nil {
		return errs
	}
	errs = append(errs, metav1validation.ValidateLabels(c.Scheduling.NodeSelector, field.NewPath("scheduling", "nodeSelector"))...)
	seen := map[string]bool{}
	for i, t := range c.Scheduling.Tolerations {
		key := fmt.Sprint(t.Key, "\x00", t.Operator, "\x00", t.Value, "\x00", t.Effect)
		if seen[key] {
			errs = append(errs, field.Duplicate(field.NewPath("scheduling", "tolerations").Index(i), t))
		}
		seen[key] = true
	}
	return errs
}
