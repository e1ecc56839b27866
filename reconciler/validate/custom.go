package validate

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
	"github.com/writ-os/writ/schema/validate"
)

// Custom checks a custom resource against its definition: fields that the
// schema does not know, then schema and CEL rules, as the server does. rules
// is what the definition of the commit says, which may be newer than that of
// the cluster.
func Custom(ctx context.Context, m *render.Manifest, rules schema.Custom) []v1alpha1.Finding {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(m.JSON); err != nil {
		return []v1alpha1.Finding{{File: m.File, Line: m.Line, Column: m.Column, Object: m.Object(), Rule: "WrongType", Message: err.Error()}}
	}
	if m.Key.Namespace != "" {
		u.SetNamespace(m.Key.Namespace)
	}
	var findings []v1alpha1.Finding
	unknown := rules.Prune(u.Object)
	slices.Sort(unknown)
	for _, path := range unknown {
		findings = append(findings, v1alpha1.Finding{Field: path, Rule: "UnknownField", Message: path + ": there is no such field", Hint: meant(rules, path)})
	}
	rules.Default(u.Object)
	errs := rules.Validate(ctx, u, nil)
	for _, err := range errs {
		if len(errs) > 1 && notChecked(err) {
			continue // the others say why
		}
		findings = append(findings, v1alpha1.Finding{Field: fieldOf(err), Rule: strings.TrimPrefix(string(err.Type), "FieldValue"), Message: sentence(err)})
	}
	for i := range findings {
		f := &findings[i]
		if p := render.Locate(m.Expr(), f.Field); p.IsValid() {
			f.File, f.Line, f.Column = p.Filename, p.Line, p.Column
		}
		place(f, m)
	}
	return findings
}

// fielder knows the fields that a definition has beside one that it has not.
type fielder interface{ Fields(path string) []string }

// meant is the hint of an unknown field; "" where no known one is near.
func meant(rules schema.Custom, path string) string {
	f, ok := rules.(fielder)
	if !ok {
		return ""
	}
	return validate.DidYouMean(path[strings.LastIndexByte(path, '.')+1:], f.Fields(path))
}
