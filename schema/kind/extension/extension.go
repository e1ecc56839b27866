package extension

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/custom"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

type (
	crd        = apiextensionsv1.CustomResourceDefinition
	apiService = apiregistrationv1.APIService
)

// CustomResourceDefinition is the judge of its kind.
var CustomResourceDefinition = &kind.Kind{
	Resource:   schema.ResourceFor[*crd](),
	Generation: true, Conditional: true, OwnImmutable: true, OwnSchema: true,
	PrepareCreate: func(o schema.Object) { noteStored(o.(*crd)) },
	PrepareUpdate: func(o, _ schema.Object) { noteStored(o.(*crd)) },
	Validate: func(o schema.Object) field.ErrorList {
		if o.GetResourceVersion() != "" { // an update is held against what was
			return nil
		}
		return specErrors(custom.ValidateDefinition(context.Background(), o.(*crd), nil))
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return specErrors(custom.ValidateDefinition(context.Background(), o.(*crd), old.(*crd)))
	},
	ValidateDoor: func(_ string, o, old schema.Object) field.ErrorList {
		return specErrors(custom.ValidateDefinitionStatus(o.(*crd), old.(*crd)))
	},
	Warnings: func(o, old schema.Object) []string {
		was, _ := old.(*crd)
		return custom.Warnings(o.(*crd), was)
	},
	// The first delete only begins the deletion: it sets the finalizer that
	// holds the definition while its instances go.
	Held:          func(o schema.Object) bool { return o.GetDeletionTimestamp() == nil },
	Marked:        true,
	PrepareDelete: func(o schema.Object) { custom.PrepareDelete(o.(*crd), valid.Now()) },
}

// APIService is the judge of its kind.
var APIService = &kind.Kind{
	Resource:    schema.ResourceFor[*apiService](),
	Conditional: true, Name: valid.PathSegment,
	PrepareCreate: func(o schema.Object) { setLocalAvailable(o.(*apiService)) },
	PrepareStatus: func(o, old schema.Object) { valid.ResetMeta(o, old) },
	Validate: func(o schema.Object) field.ErrorList {
		return apiServiceErrors(o.(*apiService))
	},
	ValidateDoor: func(_ string, o, _ schema.Object) field.ErrorList {
		return apiServiceStatusErrors(o.(*apiService))
	},
}

// specErrors drops what is said of the metadata of every kind already. What
// follows from the spec is the definition's own: its name, and the approval of a
// protected group.
func specErrors(errs field.ErrorList) field.ErrorList {
	seen := map[string]bool{}
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		if !strings.HasPrefix(e.Field, "metadata.") {
			return false
		}
		own := strings.Contains(e.Detail, "spec.") || strings.HasPrefix(e.Field, "metadata.annotations[")
		again := seen[e.Error()]
		seen[e.Error()] = true
		return !own || again
	})
}

// noteStored notes that objects are kept in the version that is to be stored.
func noteStored(d *crd) {
	for _, v := range d.Spec.Versions {
		if v.Storage {
			if !slices.Contains(d.Status.StoredVersions, v.Name) {
				d.Status.StoredVersions = append(slices.Clone(d.Status.StoredVersions), v.Name)
			}
			return
		}
	}
}

// setLocalAvailable says of a service that is served here that it is there.
func setLocalAvailable(s *apiService) {
	if s.Spec.Service != nil {
		return
	}
	s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Reason: "Local", Message: "Local APIServices are always available",
	}}
}

func apiServiceErrors(s *apiService) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	if want := s.Spec.Version + "." + s.Spec.Group; s.Name != want && len(content.IsPathSegmentName(s.Name)) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), s.Name, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", want)))
	}
	if s.Spec.Group == "" && s.Spec.Version != "v1" {
		errs = append(errs, field.Required(at.Child("group"), "only v1 may have an empty group and it better be legacy kube"))
	}
	if s.Spec.Group != "" {
		for _, msg := range validation.IsDNS1123Subdomain(s.Spec.Group) {
			errs = append(errs, field.Invalid(at.Child("group"), s.Spec.Group, msg))
		}
	}
	for _, msg := range validation.IsDNS1035Label(s.Spec.Version) {
		errs = append(errs, field.Invalid(at.Child("version"), s.Spec.Version, msg))
	}
	if p := s.Spec.GroupPriorityMinimum; p <= 0 || p > 20000 {
		errs = append(errs, field.Invalid(at.Child("groupPriorityMinimum"), p, "must be positive and less than 20000"))
	}
	if p := s.Spec.VersionPriority; p <= 0 || p > 1000 {
		errs = append(errs, field.Invalid(at.Child("versionPriority"), p, "must be positive and less than 1000"))
	}
	skip := s.Spec.InsecureSkipTLSVerify
	if s.Spec.Service == nil {
		if n := len(s.Spec.CABundle); n != 0 {
			errs = append(errs, field.Invalid(at.Child("caBundle"), fmt.Sprintf("%d bytes", n), "local APIServices may not have a caBundle"))
		}
		if skip {
			errs = append(errs, field.Invalid(at.Child("insecureSkipTLSVerify"), skip, "local APIServices may not have insecureSkipTLSVerify"))
		}
		return errs
	}
	service := at.Child("service")
	if s.Spec.Service.Namespace == "" {
		errs = append(errs, field.Required(service.Child("namespace"), ""))
	}
	if s.Spec.Service.Name == "" {
		errs = append(errs, field.Required(service.Child("name"), ""))
	}
	if p := s.Spec.Service.Port; p != nil {
		if msgs := validation.IsValidPortNum(int(*p)); msgs != nil {
			errs = append(errs, field.Invalid(service.Child("port"), *p, "port is not valid: "+strings.Join(msgs, ", ")))
		}
	}
	if skip && len(s.Spec.CABundle) > 0 {
		errs = append(errs, field.Invalid(at.Child("insecureSkipTLSVerify"), skip, "may not be true if caBundle is present"))
	}
	return errs
}

func apiServiceStatusErrors(s *apiService) field.ErrorList {
	var errs field.ErrorList
	for i := range s.Status.Conditions {
		errs = append(errs, valid.OneOf(&s.Status.Conditions[i].Status, field.NewPath("status", "conditions").Index(i).Child("status"), "True", "False", "Unknown")...)
	}
	return errs
}
