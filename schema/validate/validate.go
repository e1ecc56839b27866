// Package validate checks objects against the definitions in schema/cue.
//
// Objects are accepted by JSON Schema, generated from those definitions, in
// tens of microseconds. Only an object that the JSON Schema refuses meets CUE:
// it is walked side by side with the syntax of its definition, and CUE decides
// on every single constraint, so that all that is wrong is found at once, each
// with its place and in plain words. A differential test keeps JSON Schema and
// CUE of one opinion.
//
// What fields say of each other (a selector and the labels it must match, a
// mount and its volume) is beyond both and checked in Go, in relations.go.
//
// A field that is null is a field that was left out, as in Kubernetes.
//
// It watches nothing. It owns compiled schemas: nothing is compiled before the
// first object of a kind comes, nothing is kept of the objects. All functions
// may be called from many goroutines.
package validate

import (
	"cmp"
	"slices"

	"cuelang.org/go/cue/ast"
	cuejson "cuelang.org/go/encoding/json"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// maxFindings bounds what is said of one object.
const maxFindings = 100

// JSON checks an object in JSON. No findings: it is accepted. Findings have a
// Field, and no place in a file.
func JSON(r *schema.Resource, data []byte) []v1alpha1.Finding {
	v, plain, err := decode(data)
	if err != nil {
		return []v1alpha1.Finding{{Rule: RuleSyntax, Message: "not JSON: " + err.Error()}}
	}
	rs := relations(r, v)
	accepted := plain && accepts(r, v)
	if accepted && len(rs) == 0 {
		return nil
	}
	expr, err := cuejson.Extract("", data)
	if err != nil {
		return []v1alpha1.Finding{{Rule: RuleSyntax, Message: "not JSON: " + err.Error()}}
	}
	out := wrong(r, expr, rs, accepted)
	for i := range out {
		out[i].File, out[i].Line, out[i].Column = "", 0, 0
	}
	return out
}

// Accepts checks a decoded object, whose numbers are int64, and takes it over.
// What is not accepted here may be by JSON, which also says what is wrong.
func Accepts(r *schema.Resource, v map[string]any) bool {
	return prune(v) && relations(r, v) == nil && accepts(r, v)
}

// Expr checks an object whose syntax has positions in a manifest, as
// cuelang.org/go/encoding/yaml extracts it. No findings: it is accepted.
// Findings have File, Line and Column and come in the order of the manifest.
func Expr(r *schema.Resource, expr ast.Expr) []v1alpha1.Finding {
	v, plain := literal(expr)
	rs := relations(r, v)
	accepted := plain && accepts(r, v)
	if accepted && len(rs) == 0 {
		return nil
	}
	return wrong(r, expr, rs, accepted)
}

// wrong are the findings of an object: of the relations that do not hold, and of
// what the JSON Schema has not accepted. What it has accepted CUE is not asked
// about: the two are of one mind, and CUE takes time in the square of a list.
func wrong(r *schema.Resource, expr ast.Expr, rs []relation, accepted bool) []v1alpha1.Finding {
	out := findings(objectName(r, expr), rs[:min(len(rs), 10*maxFindings)], expr)
	if !accepted {
		out = append(explain(r, expr), out...)
	}
	return sortFindings(out)
}

// sortFindings puts findings into the order of the manifest, says each once,
// and not too many.
func sortFindings(fs []v1alpha1.Finding) []v1alpha1.Finding {
	slices.SortStableFunc(fs, func(a, b v1alpha1.Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Field, b.Field))
	})
	fs = slices.CompactFunc(fs, func(a, b v1alpha1.Finding) bool { return a == b })
	if len(fs) == 0 {
		return nil
	}
	return fs[:min(len(fs), maxFindings)]
}
