package scheduling

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
)

// highestPriority is the highest that people may give; what is above is for
// parts of the cluster.
const highestPriority = 1000000000

// systemPriorities are the classes of those parts, by name.
var systemPriorities = map[string]int32{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}

// PriorityClass is the judge of its kind.
var PriorityClass = &kind.Kind{
	Resource:     schema.ResourceFor[*schedulingv1.PriorityClass](),
	OwnImmutable: true, OwnSchema: true,
	PrepareCreate:  func(o schema.Object) { o.SetGeneration(1) },
	ValidateCreate: func(o schema.Object) field.ErrorList { return priorityErrors(o.(*schedulingv1.PriorityClass)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return priorityUpdateErrors(o.(*schedulingv1.PriorityClass), old.(*schedulingv1.PriorityClass))
	},
}

func priorityErrors(c *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if strings.HasPrefix(c.Name, "system-") {
		if err := systemPriority(c); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with 'system-' prefix are reserved for system use only. error: "+err.Error()))
		}
	} else if c.Value > highestPriority {
		errs = append(errs, field.Forbidden(field.NewPath("value"), fmt.Sprintf("maximum allowed value of a user defined priority is %v", highestPriority)))
	}
	if p, at := c.PreemptionPolicy, field.NewPath("preemptionPolicy"); p != nil {
		switch *p {
		case corev1.PreemptLowerPriority, corev1.PreemptNever:
		case "":
			errs = append(errs, field.Required(at, ""))
		default:
			errs = append(errs, field.NotSupported(at, *p, []corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever}))
		}
	}
	return errs
}

func systemPriority(c *schedulingv1.PriorityClass) error {
	value, ok := systemPriorities[c.Name]
	switch {
	case !ok:
		return fmt.Errorf("%v is not a known system priority class", c.Name)
	case c.Value != value:
		return fmt.Errorf("value of %v PriorityClass must be %v", c.Name, value)
	case c.GlobalDefault:
		return fmt.Errorf("globalDefault of %v PriorityClass must be %v", c.Name, false)
	}
	return nil
}

func priorityUpdateErrors(c, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if c.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, validation.ValidateImmutableField(c.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))...)
}
