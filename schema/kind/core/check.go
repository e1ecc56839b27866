// Package core judges the core group: pods and their templates, Services and
// Endpoints, nodes, namespaces, configuration, quotas, events; and has what
// other groups ask of templates and claims.
//
// It speaks Kubernetes' own words: every cause has the field, the text and the
// place in the list that kube-apiserver 1.36 gives it, so that what people and
// tools know of its answers holds here. Where upstream walks a map, whose order
// is chance, the order here is that of the keys.
//
// The functions are pure: they read an object that has been defaulted. The
// package watches nothing, owns nothing and promises not to change what it
// judges.
package core

import (
	"cmp"
	"maps"
	"slices"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
)

// Texts that many fields share.
const (
	notInteger  = "must be an integer"
	notPositive = "must be greater than zero"
	fileMode    = "must be a number between 0 and 0777 (octal), both inclusive"
)

// check collects errors in the order in which they are found.
type check struct{ errs field.ErrorList }

func (c *check) add(errs ...*field.Error) { c.errs = append(c.errs, errs...) }

func (c *check) required(at *field.Path, detail string) { c.add(field.Required(at, detail)) }

func (c *check) invalid(at *field.Path, value any, detail string) {
	c.add(field.Invalid(at, value, detail))
}

func (c *check) forbid(at *field.Path, detail string) { c.add(field.Forbidden(at, detail)) }

// each adds one error for every message.
func (c *check) each(at *field.Path, value any, messages []string) {
	for _, m := range messages {
		c.invalid(at, value, m)
	}
}

// nonEmpty demands a value.
func (c *check) nonEmpty(at *field.Path, value string) {
	if value == "" {
		c.required(at, "")
	}
}

func (c *check) label(at *field.Path, value string) {
	c.each(at, value, validation.IsDNS1123Label(value))
}

func (c *check) subdomain(at *field.Path, value string) {
	c.each(at, value, validation.IsDNS1123Subdomain(value))
}

func (c *check) qualified(at *field.Path, value string) {
	c.each(at, value, validation.IsQualifiedName(value))
}

func (c *check) labelKey(at *field.Path, key string) {
	c.add(metav1validation.ValidateLabelName(key, at)...)
}

func (c *check) ip(at *field.Path, value string, known ...string) {
	c.add(validation.IsValidIPForLegacyField(at, value, true, known)...)
}

func (c *check) notNegative(at *field.Path, value int64) {
	c.add(apivalidation.ValidateNonnegativeField(value, at)...)
}

func (c *check) mode(at *field.Path, mode *int32) {
	if mode != nil && (*mode > 0o777 || *mode < 0) {
		c.invalid(at, *mode, fileMode)
	}
}

func (c *check) notNegativeQuantity(at *field.Path, q resource.Quantity) {
	if q.Sign() < 0 {
		c.invalid(at, q.String(), apivalidation.IsNegativeErrorMsg)
	}
}

func (c *check) positiveQuantity(at *field.Path, q resource.Quantity) {
	if q.Sign() <= 0 {
		c.invalid(at, q.String(), notPositive)
	}
}

// oneOf demands one of some words. Upstream lists most of them sorted.
func oneOf[T ~string](c *check, at *field.Path, value T, valid ...T) {
	if !slices.Contains(valid, value) {
		c.add(field.NotSupported(at, value, valid))
	}
}

// wordOf is oneOf of a word that must be there.
func wordOf[T ~string](c *check, at *field.Path, value T, valid ...T) {
	if value == "" {
		c.required(at, "")
		return
	}
	oneOf(c, at, value, valid...)
}

// sorted walks a map in the order of its keys.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
