// Package valid has the rules that fields of many kinds share, in the words of
// kube-apiserver 1.36.
//
// It watches nothing, owns nothing and promises not to change what it reads.
package valid

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Immutable is what is said of a field that has changed and may not.
const Immutable = "field is immutable"

// Segment checks a name that must be there and fit into a URL.
func Segment(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return InvalidAll(at, name, content.IsPathSegmentName(name))
}

// maxDriverName is how long a driver's name may be.
const maxDriverName = 63

// DriverName checks the name of a driver, which must be there.
func DriverName(name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if len(name) > maxDriverName {
		errs = append(errs, field.TooLong(at, "", maxDriverName))
	}
	for _, msg := range utilvalidation.IsDNS1123Subdomain(strings.ToLower(name)) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}

// ResetMeta keeps all of the metadata but the owners of fields, as status doors
// of some kinds do.
func ResetMeta(o, old metav1.Object) {
	o.SetLabels(old.GetLabels())
	o.SetAnnotations(old.GetAnnotations())
	o.SetFinalizers(old.GetFinalizers())
	o.SetOwnerReferences(old.GetOwnerReferences())
	o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	o.SetGeneration(old.GetGeneration())
	o.SetSelfLink(old.GetSelfLink())
}

// Keep forbids a change of a field.
func Keep(at *field.Path, is, was any) field.ErrorList {
	if apiequality.Semantic.DeepEqual(is, was) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, is, Immutable)}
}

// TooLong says that a text is longer than a limit.
func TooLong(at *field.Path, s string, limit int) field.ErrorList {
	if len(s) <= limit {
		return nil
	}
	return field.ErrorList{field.Invalid(at, s, fmt.Sprintf("must be %d characters or less", limit))}
}

// QualifiedName checks a name that may have a domain before it.
func QualifiedName(name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}

// Deref is the value of a pointer; the zero value of nil.
func Deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Word demands one of the words, which are sorted.
func Word[T ~string](v T, at *field.Path, words ...T) field.ErrorList {
	switch {
	case v == "":
		return field.ErrorList{field.Required(at, "")}
	case !slices.Contains(words, v):
		return field.ErrorList{field.NotSupported(at, v, words)}
	}
	return nil
}

// InvalidAll makes an error of every message.
func InvalidAll(at *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range messages {
		errs = append(errs, field.Invalid(at, value, msg))
	}
	return errs
}

// OneOf checks an optional word.
func OneOf[T ~string](v *T, at *field.Path, words ...string) field.ErrorList {
	if v == nil || slices.Contains(words, string(*v)) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, *v, words)}
}

// LabelSelector checks a selector that may be left out.
func LabelSelector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, at)
}

// NonNegative is what upstream says of counts.
func NonNegative[T ~int32 | ~int64](n T, at *field.Path) field.ErrorList {
	return validation.ValidateNonnegativeField(int64(n), at)
}

// NonNegativeIf checks a count that may be left out.
func NonNegativeIf[T ~int32 | ~int64](n *T, at *field.Path) field.ErrorList {
	if n == nil {
		return nil
	}
	return NonNegative(*n, at)
}

// Portion checks a number or a part of a whole in percent.
func Portion(v intstr.IntOrString, at *field.Path) field.ErrorList {
	if v.Type == intstr.Int {
		return NonNegative(v.IntVal, at)
	}
	return InvalidAll(at, v, utilvalidation.IsValidPercent(v.StrVal))
}

// Percent returns the number of a percentage.
func Percent(v intstr.IntOrString) (int, bool) {
	if v.Type != intstr.String || len(utilvalidation.IsValidPercent(v.StrVal)) > 0 {
		return 0, false
	}
	n, _ := strconv.Atoi(v.StrVal[:len(v.StrVal)-1]) //nolint:errcheck // it is a percentage
	return n, true
}

// AtMostAll wants a share to be no more than the whole.
func AtMostAll(v intstr.IntOrString, at *field.Path) field.ErrorList {
	if n, ok := Percent(v); !ok || n <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, v, "must not be greater than 100%")}
}

// Count is a number of a status, by the name of its field.
type Count struct {
	Name string
	N    int64
}

// Counts checks the numbers of a status: none is negative.
func Counts(counts ...Count) field.ErrorList {
	var errs field.ErrorList
	for _, c := range counts {
		errs = append(errs, NonNegative(c.N, field.NewPath("status", c.Name))...)
	}
	return errs
}

// PathSegment demands of a name only that it fits into a URL.
func PathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// Now is the time as the API shows it, in seconds.
func Now() metav1.Time { return metav1.Now().Rfc3339Copy() }
