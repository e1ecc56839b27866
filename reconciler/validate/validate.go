// Package validate says what is wrong with the manifests of a commit: each by
// itself against the definition of its kind, and all of them together.
//
// It watches nothing and owns nothing; it is made of functions of values. It
// promises every finding of a commit at once, sorted by file and line, each
// with the place that the author has to edit.
package validate

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
	"github.com/writ-os/writ/schema/validate"
)

// maxEvaluated bounds the values of a manifest whose syntax is evaluated: that
// costs the square of the length of its lists, and in the server.
const maxEvaluated = 2_000

// Manifest checks one manifest against the definition of its kind. The JSON is
// checked first, which is cheap and accepts nearly all; only for a manifest
// that it refuses the syntax is evaluated, to say where and why.
func Manifest(m *render.Manifest) []v1alpha1.Finding {
	findings := validate.JSON(m.Resource, m.JSON)
	switch {
	case len(findings) == 0:
	case bytes.Count(m.JSON, []byte(",")) > maxEvaluated:
		for i := range findings {
			if p := render.Locate(m.Expr(), findings[i].Field); findings[i].Field != "" && p.IsValid() {
				findings[i].File, findings[i].Line, findings[i].Column = p.Filename, p.Line, p.Column
			}
		}
	default:
		if placed := validate.Expr(m.Resource, m.Expr()); len(placed) > 0 {
			findings = placed
		}
	}
	if m.Key.Name == "" && !slices.ContainsFunc(findings, func(f v1alpha1.Finding) bool { return f.Field == "metadata.name" }) {
		findings = append(findings, v1alpha1.Finding{Field: "metadata.name", Rule: "Required",
			Message: "metadata.name is required", Hint: "a declared object needs a name of its own; generateName cannot be used"})
	}
	for i := range findings {
		place(&findings[i], m)
	}
	return findings
}

// place completes what a finding says about where it is.
func place(f *v1alpha1.Finding, m *render.Manifest) {
	f.Object = m.Object()
	if f.Line == 0 {
		f.File, f.Line, f.Column = m.File, m.Line, m.Column
	}
}

// Objects checks the objects of a commit against each other. exists says
// whether the cluster has a namespace; nil when that is not known.
func Objects(heads []render.Head, exists func(namespace string) bool) []v1alpha1.Finding {
	var findings []v1alpha1.Finding
	first := make(map[render.Ref]*render.Head, len(heads))
	for i := range heads {
		h := &heads[i]
		if d, dup := first[h.Ref]; dup {
			findings = append(findings, duplicate(h, d))
			continue
		}
		first[h.Ref] = h
	}
	if exists == nil {
		return findings
	}
	namespaces := schema.ByGVK(render.NamespaceKind)
	for i := range heads {
		h := &heads[i]
		if !h.Resource.Namespaced || Everywhere(h.Key.Namespace) {
			continue
		}
		if first[render.Ref{Resource: namespaces, Key: schema.Key{Name: h.Key.Namespace}}] == nil && !exists(h.Key.Namespace) {
			findings = append(findings, v1alpha1.Finding{File: h.File, Line: h.Line, Column: h.Column, Object: h.Object(),
				Field: "metadata.namespace", Rule: "NoNamespace",
				Message: fmt.Sprintf("the namespace %s is neither in the commit nor in the cluster", h.Key.Namespace),
				Hint:    "add a Namespace " + h.Key.Namespace + " to the repository"})
		}
	}
	return findings
}

func duplicate(h, first *render.Head) v1alpha1.Finding {
	f := v1alpha1.Finding{File: h.File, Line: h.Line, Column: h.Column, Object: h.Object(), Rule: "Duplicate",
		Message: fmt.Sprintf("%s is already declared in %s:%d", h.Object(), first.File, first.Line),
		Hint:    "remove one of the two"}
	if h.File == first.File && h.Line == first.Line {
		f.Message = h.Object() + " is rendered twice from here, by two releases or kustomizations"
		f.Hint = "give each its own namespace or names (metadata.name of the HelmRelease, namePrefix of the kustomization), or remove one"
	}
	return f
}

// Everywhere says whether every cluster has the namespace.
func Everywhere(namespace string) bool {
	switch namespace {
	case "default", "kube-system", "kube-public", "kube-node-lease":
		return true
	}
	return false
}

// Sort orders findings by place, and drops those that say the same twice.
func Sort(findings []v1alpha1.Finding) []v1alpha1.Finding {
	slices.SortStableFunc(findings, func(a, b v1alpha1.Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(findings)
}
