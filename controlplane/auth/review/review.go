// Package review turns the reviews of authorization.k8s.io into what
// authorizers decide, and checks them, with Kubernetes' words.
//
// It is pure: it owns nothing and watches nothing.
package review

import (
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// User is whom a SubjectAccessReview asks about.
func User(spec *authorizationv1.SubjectAccessReviewSpec) user.Info {
	u := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	for k, v := range spec.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[k] = v
	}
	return u
}

// Attributes returns what to ask of authorizers. One of resource and path is
// nil. Selectors that cannot be read are left out and told as parsing errors:
// without them the question is about more, never about less.
func Attributes(u user.Info, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) *authorizer.AttributesRecord {
	if resource == nil {
		return &authorizer.AttributesRecord{User: u, Verb: path.Verb, Path: path.Path}
	}
	a := &authorizer.AttributesRecord{
		User: u, ResourceRequest: true, Verb: resource.Verb, Namespace: resource.Namespace, APIGroup: resource.Group,
		APIVersion: resource.Version, Resource: resource.Resource, Subresource: resource.Subresource, Name: resource.Name,
	}
	if a.APIVersion == "" {
		a.APIVersion = "*"
	}
	if s := resource.LabelSelector; s != nil {
		a.LabelSelectorRequirements, a.LabelSelectorParsingErr = labelRequirements(s)
	}
	if s := resource.FieldSelector; s != nil {
		a.FieldSelectorRequirements, a.FieldSelectorParsingErr = fieldRequirements(s)
	}
	return a
}

// EvaluationError is what the status of a review says of an authorizer's error,
// and of selectors that could not be read.
func EvaluationError(err error, a *authorizer.AttributesRecord) string {
	var all []string
	if err != nil {
		all = append(all, err.Error())
	}
	ignored := func(which string, some bool, err error) {
		switch {
		case err != nil && some:
			all = append(all, "spec.resourceAttributes."+which+" partially ignored due to parse error")
		case err != nil:
			all = append(all, "spec.resourceAttributes."+which+" ignored due to parse error")
		}
	}
	ignored("fieldSelector", len(a.FieldSelectorRequirements) > 0, a.FieldSelectorParsingErr)
	ignored("labelSelector", len(a.LabelSelectorRequirements) > 0, a.LabelSelectorParsingErr)
	return strings.Join(all, "; ")
}

func labelRequirements(s *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if len(s.Requirements) == 0 {
		if s.RawSelector == "" {
			return nil, nil
		}
		sel, err := labels.Parse(s.RawSelector)
		if err != nil {
			return nil, err
		}
		reqs, _ := sel.Requirements()
		return reqs, nil
	}
	var (
		reqs labels.Requirements
		errs []error
	)
	for _, r := range s.Requirements {
		op, ok := labelOperator(r.Operator)
		if !ok {
			errs = append(errs, fmt.Errorf("%q is not a valid label selector operator", r.Operator))
			continue
		}
		values := r.Values
		if len(values) == 0 {
			values = nil
		}
		req, err := labels.NewRequirement(r.Key, op, values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		reqs = append(reqs, *req)
	}
	return reqs, utilerrors.NewAggregate(errs)
}

func labelOperator(op metav1.LabelSelectorOperator) (selection.Operator, bool) {
	switch op {
	case metav1.LabelSelectorOpIn:
		return selection.In, true
	case metav1.LabelSelectorOpNotIn:
		return selection.NotIn, true
	case metav1.LabelSelectorOpExists:
		return selection.Exists, true
	case metav1.LabelSelectorOpDoesNotExist:
		return selection.DoesNotExist, true
	}
	return "", false
}

func fieldRequirements(s *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if len(s.Requirements) == 0 {
		if s.RawSelector == "" {
			return nil, nil
		}
		sel, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return nil, err
		}
		return sel.Requirements(), nil
	}
	var (
		reqs fields.Requirements
		errs []error
	)
	for _, r := range s.Requirements {
		req, err := fieldRequirement(r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		reqs = append(reqs, req)
	}
	return reqs, utilerrors.NewAggregate(errs)
}

// fieldRequirement writes a requirement as a parsed selector has it.
func fieldRequirement(r metav1.FieldSelectorRequirement) (req fields.Requirement, err error) {
	if len(r.Values) > 1 {
		return req, errors.New("fieldSelectors do not yet support multiple values")
	}
	req.Field = r.Key
	var word string
	switch r.Operator {
	case metav1.FieldSelectorOpIn:
		req.Operator, word = selection.Equals, "in"
	case metav1.FieldSelectorOpNotIn:
		req.Operator, word = selection.NotEquals, "not in"
	case metav1.FieldSelectorOpExists, metav1.FieldSelectorOpDoesNotExist:
		return req, fmt.Errorf("fieldSelectors do not yet support %v", r.Operator)
	default:
		return req, fmt.Errorf("%q is not a valid field selector operator", r.Operator)
	}
	if len(r.Values) != 1 {
		return req, fmt.Errorf("fieldSelectors %s must have one value", word)
	}
	req.Value = r.Values[0]
	return req, nil
}
