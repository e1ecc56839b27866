package review

import (
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

type (
	resourceAttributes = authorizationv1.ResourceAttributes
	fieldSelector      = authorizationv1.FieldSelectorAttributes
	labelSelector      = authorizationv1.LabelSelectorAttributes
)

func fieldReq(key string, op metav1.FieldSelectorOperator, values ...string) []metav1.FieldSelectorRequirement {
	return []metav1.FieldSelectorRequirement{{Key: key, Operator: op, Values: values}}
}

func TestAttributes(t *testing.T) {
	for _, tt := range []struct {
		in   resourceAttributes
		want string // field requirements; label requirements; errors
	}{
		{resourceAttributes{}, "[] <nil>;  <nil>"},
		{resourceAttributes{FieldSelector: &fieldSelector{RawSelector: "spec.nodeName=a"}, LabelSelector: &labelSelector{RawSelector: "app in (x,y)"}}, "[{= spec.nodeName a}] <nil>; app in (x,y) <nil>"},
		{resourceAttributes{FieldSelector: &fieldSelector{Requirements: fieldReq("spec.nodeName", "In", "a")}, LabelSelector: &labelSelector{Requirements: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Exists"}}}}, "[{= spec.nodeName a}] <nil>; app <nil>"},
		{resourceAttributes{FieldSelector: &fieldSelector{Requirements: fieldReq("x", "NotIn", "a")}}, "[{!= x a}] <nil>;  <nil>"},
		{resourceAttributes{FieldSelector: &fieldSelector{Requirements: append(fieldReq("x", "In", "a", "b"), fieldReq("y", "In", "c")...)}}, "[{= y c}] fieldSelectors do not yet support multiple values;  <nil>"},
		{resourceAttributes{FieldSelector: &fieldSelector{Requirements: fieldReq("x", "In")}}, "[] fieldSelectors in must have one value;  <nil>"},
		{resourceAttributes{FieldSelector: &fieldSelector{Requirements: fieldReq("x", "Exists")}}, "[] fieldSelectors do not yet support Exists;  <nil>"},
		{resourceAttributes{FieldSelector: &fieldSelector{Requirements: fieldReq("x", "Near", "a")}}, `[] "Near" is not a valid field selector operator;  <nil>`},
		{resourceAttributes{FieldSelector: &fieldSelector{RawSelector: "a b"}}, "[] invalid selector: 'a b'; can't understand 'a b';  <nil>"},
		{resourceAttributes{LabelSelector: &labelSelector{Requirements: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}, {Key: "b", Operator: "In", Values: []string{"c"}}}}}, `[] <nil>; b in (c) "Near" is not a valid label selector operator`},
	} {
		a := Attributes(&user.DefaultInfo{Name: "jane"}, &tt.in, nil)
		f, ferr := a.GetFieldSelector()
		l, lerr := a.GetLabelSelector()
		if got := fmt.Sprintf("%v %v; %v %v", f, ferr, l, lerr); got != tt.want || a.APIVersion != "*" || !a.ResourceRequest {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
	if a := Attributes(nil, nil, &authorizationv1.NonResourceAttributes{Path: "/x", Verb: "get"}); a.ResourceRequest || a.Path != "/x" || a.Verb != "get" {
		t.Errorf("%+v", a)
	}
	spec := &authorizationv1.SubjectAccessReviewSpec{User: "jane", UID: "7", Groups: []string{"dev"}, Extra: map[string]authorizationv1.ExtraValue{"a": {"b"}}}
	if u := User(spec); fmt.Sprintf("%s %s %v %v", u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra()) != "jane 7 [dev] map[a:[b]]" {
		t.Errorf("%v", u)
	}
}

func TestValidate(t *testing.T) {
	res, path := &resourceAttributes{Namespace: "shop"}, &authorizationv1.NonResourceAttributes{}
	local := func(r *resourceAttributes, p *authorizationv1.NonResourceAttributes) *authorizationv1.LocalSubjectAccessReview {
		return &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "jane", ResourceAttributes: r, NonResourceAttributes: p}}
	}
	self := func(r *resourceAttributes, p *authorizationv1.NonResourceAttributes, name string) *authorizationv1.SelfSubjectAccessReview {
		return &authorizationv1.SelfSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: r, NonResourceAttributes: p}}
	}
	for _, tt := range []struct {
		got  error
		want string
	}{
		{ValidateSelf(self(res, nil, "")).ToAggregate(), ""},
		{ValidateSelf(self(nil, path, "")).ToAggregate(), ""},
		{ValidateSelf(self(res, path, "")).ToAggregate(), "spec.nonResourceAttributes: Invalid value"},
		{ValidateSelf(self(nil, nil, "")).ToAggregate(), "exactly one of nonResourceAttributes or resourceAttributes must be specified"},
		{ValidateSelf(self(res, nil, "x")).ToAggregate(), "must be empty"},
		{ValidateSelf(self(&resourceAttributes{FieldSelector: &fieldSelector{}}, nil, "")).ToAggregate(), "when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required"},
		{ValidateSelf(self(&resourceAttributes{LabelSelector: &labelSelector{RawSelector: "a", Requirements: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Exists"}}}}, nil, "")).ToAggregate(), "may not specified at the same time as requirements"},
		{ValidateSelf(self(&resourceAttributes{FieldSelector: &fieldSelector{Requirements: fieldReq("", "In")}}, nil, "")).ToAggregate(), "must be specified when `operator` is 'In' or 'NotIn'"},
		{ValidateSubject(&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: res}}).ToAggregate(), "at least one of user or group must be specified"},
		{ValidateLocal(local(res, nil)).ToAggregate(), ""},
		{ValidateLocal(local(&resourceAttributes{Namespace: "other"}, nil)).ToAggregate(), "must match metadata.namespace"},
		{ValidateLocal(local(nil, path)).ToAggregate(), "disallowed on this kind of request"},
	} {
		if tt.want == "" && tt.got != nil || tt.want != "" && (tt.got == nil || !strings.Contains(tt.got.Error(), tt.want)) {
			t.Errorf("got %v, want %q", tt.got, tt.want)
		}
	}
}
