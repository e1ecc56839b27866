package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

// extra is a kind that is not a resource of the table: a review, which has a
// path of its own, or what a subresource speaks.
type extra struct {
	group, version, kind, plural string
	namespaced                   bool
	sample                       any
}

var extras = []extra{
	{"", "v1", "Binding", "bindings", true, corev1.Binding{}},
	{"authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", false, authenticationv1.SelfSubjectReview{}},
	{"authentication.k8s.io", "v1", "TokenReview", "tokenreviews", false, authenticationv1.TokenReview{}},
	{"authentication.k8s.io", "v1", "TokenRequest", "", true, authenticationv1.TokenRequest{}},
	{"authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", true, authorizationv1.LocalSubjectAccessReview{}},
	{"authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", false, authorizationv1.SelfSubjectAccessReview{}},
	{"authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", false, authorizationv1.SelfSubjectRulesReview{}},
	{"authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", false, authorizationv1.SubjectAccessReview{}},
	{"autoscaling", "v1", "Scale", "", true, autoscalingv1.Scale{}},
	{"policy", "v1", "Eviction", "", true, policyv1.Eviction{}},
}

// documents builds the document of every group and version, by its path.
func documents() (map[string]object, error) {
	src, err := findSources(packages())
	if err != nil {
		return nil, err
	}
	groups := map[string][]*schema.Resource{}
	for _, r := range schema.Resources {
		p := strings.TrimPrefix(apiPath(r), "/")
		groups[p] = append(groups[p], r)
	}
	more := map[string][]extra{}
	for _, e := range extras {
		p := strings.TrimPrefix(apiPath(&schema.Resource{Group: e.group, Version: e.version}), "/")
		more[p] = append(more[p], e)
		if _, ok := groups[p]; !ok {
			groups[p] = nil
		}
	}
	docs := map[string]object{}
	for path, resources := range groups {
		if docs[path], err = document(src, resources, more[path]); err != nil {
			return nil, fmt.Errorf("document %s: %w", path, err)
		}
	}
	return docs, nil
}

// packages are those of all types, so that one call of the go command finds
// their source.
func packages() []string {
	pkgs := []string{
		"k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/runtime",
		"k8s.io/apimachinery/pkg/api/resource", "k8s.io/apimachinery/pkg/util/intstr", "k8s.io/api/core/v1",
	}
	for _, r := range schema.Resources {
		pkgs = append(pkgs, reflect.TypeOf(r.New()).Elem().PkgPath())
	}
	for _, e := range extras {
		pkgs = append(pkgs, reflect.TypeOf(e.sample).PkgPath())
	}
	slices.Sort(pkgs)
	return slices.Compact(pkgs)
}

func document(src *sources, resources []*schema.Resource, more []extra) (object, error) {
	b := &builder{src: src, schemas: object{}}
	paths := object{}
	for _, r := range resources {
		refs, err := b.kindRefs(r, reflect.TypeOf(r.New()).Elem(), reflect.TypeOf(r.NewList()).Elem())
		if err != nil {
			return nil, err
		}
		resourcePaths(r, refs, paths)
	}
	for _, e := range more {
		r := &schema.Resource{Group: e.group, Version: e.version, Kind: e.kind, Plural: e.plural, Namespaced: e.namespaced}
		refs, err := b.kindRefs(r, reflect.TypeOf(e.sample), nil)
		if err != nil {
			return nil, err
		}
		if e.plural != "" {
			reviewPath(r, refs, paths)
		}
	}
	return object{
		"openapi":    "3.0.0",
		"info":       object{"title": "Kubernetes", "version": "v1.36"},
		"paths":      paths,
		"components": object{"schemas": b.schemas},
	}, nil
}

// kindRefs describes a kind, its list, and what every kind's operations speak.
func (b *builder) kindRefs(r *schema.Resource, kind, list reflect.Type) (kindRefs, error) {
	refs := kindRefs{r: r}
	var err error
	for _, t := range []struct {
		into *object
		typ  reflect.Type
		kind string
	}{
		{&refs.object, kind, r.Kind}, {&refs.list, list, r.ListKind},
		{&refs.patch, reflect.TypeFor[metav1.Patch](), ""}, {&refs.status, reflect.TypeFor[metav1.Status](), "Status"},
		{new(object), reflect.TypeFor[metav1.DeleteOptions](), "DeleteOptions"},
	} {
		if t.typ == nil {
			continue
		}
		if *t.into, err = b.ref(t.typ); err != nil {
			return refs, err
		}
		b.markKind(t.typ, r, t.kind)
	}
	return refs, nil
}

// markKind notes which kind a schema is, once for each group and version.
func (b *builder) markKind(t reflect.Type, r *schema.Resource, kind string) {
	if kind == "" {
		return
	}
	const ext = "x-kubernetes-group-version-kind"
	group, version := r.Group, r.Version
	if t.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1" && kind == "Status" {
		group, version = "", "v1"
	}
	def := b.schemas[definitionName(t)].(object)
	gvk := object{"group": group, "version": version, "kind": kind}
	marks, _ := def[ext].([]object)
	for _, m := range marks {
		if m["group"] == group && m["version"] == version && m["kind"] == kind {
			return
		}
	}
	def[ext] = append(marks, gvk)
}
