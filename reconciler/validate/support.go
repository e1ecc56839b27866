package validate

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/support"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// RuleNotHonoured is the rule of findings about fields on which nothing acts.
const RuleNotHonoured = "NotHonoured"

// Decode makes the Go object of a manifest; nil where it has none, or is
// encrypted.
func Decode(m *render.Manifest) schema.Object {
	if m.Resource.Custom != nil || m.Resource.New == nil || m.Masked {
		return nil
	}
	o, err := schema.Decode(m.Resource, schema.JSON, m.JSON, false)
	if err != nil { // of another type than it should be: Manifest says so
		return nil
	}
	return o
}

// Typed says what is wrong with a manifest of which its Go type says more than
// the definition: what the API would answer, what no pod could start with, and what this cluster does not honour. o is what Decode has made,
// which is given its defaults; found is what Manifest has said already. What is
// warned of keeps nothing from being applied.
func Typed(m *render.Manifest, o schema.Object, found []v1alpha1.Finding) (refused, warned []v1alpha1.Finding) {
	accepted := Accepted(m)
	if o != nil {
		refused, warned = lacking(m, o, accepted)
		if len(accepted.names) > 0 { // of what is left out the API is not asked
			o = DecodeApplied(m)
		}
		for _, err := range slices.Concat(podErrors(o), spaceErrors(o), kindErrors(m, o)) {
			if known := append(found, refused...); !said(known, err.Field) && !follows(m, known, err.Field) {
				refused = append(refused, fieldFinding(m, err))
			}
		}
	}
	return refused, append(warned, accepted.unused(m)...)
}

// lacking says what of an object this cluster does not honour.
func lacking(m *render.Manifest, o schema.Object, accepted *Acceptance) (refused, warned []v1alpha1.Finding) {
	for _, s := range support.Check(o) {
		if s.Row.Git == support.Accept {
			continue
		}
		f := v1alpha1.Finding{Field: s.Path.String(), Rule: RuleNotHonoured, Message: s.Path.String() + ": " + s.Message(), Hint: s.Row.Instead}
		locate(&f, m)
		name := support.Name(s.Path)
		switch {
		case s.Row.Git != support.Refuse:
			warned = append(warned, f)
		case s.Row.Acceptable() && accepted.takes(name):
			f.Message += "; the manifest accepts that, so nothing acts on it"
			if s.Row.LeftOut {
				f.Message += ", and it is left out of what is applied"
			}
			warned = append(warned, f)
		default:
			if s.Row.Acceptable() {
				f.Hint = hints(f.Hint, acceptHint(name))
			}
			refused = append(refused, f)
		}
	}
	return refused, warned
}

func hints(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), "; or ")
}

// said says whether there is a finding about a field, or about one above or
// below it.
func said(found []v1alpha1.Finding, path string) bool {
	for i := range found {
		if f := found[i].Field; f != "" && (below(f, path) || below(path, f)) {
			return true
		}
	}
	return false
}

// consequences are fields of which something is said for what is wrong with
// another: the selector of a template that is missing, the port that a targetPort
// is by default.
var consequences = []struct {
	field *regexp.Regexp
	cause string
}{
	{regexp.MustCompile(`^spec\.template\.metadata\.labels$`), "spec.selector"},
	{regexp.MustCompile(`^(spec\.ports\[\d+\])\.targetPort$`), "$1.port"},
}

// follows says whether what is said of a field is so only because of what has been
// said of another. What the manifest itself has there is never left out, but for
// what matches nothing because there is nothing to match.
func follows(m *render.Manifest, found []v1alpha1.Finding, path string) bool {
	for _, c := range consequences {
		at := c.field.FindStringSubmatchIndex(path)
		if at == nil {
			continue
		}
		cause := string(c.field.ExpandString(nil, c.cause, path, at))
		_, written := render.LocateValue(m.Expr(), path)
		for i := range found {
			if found[i].Field == cause && (cause == "spec.selector" || written == "") {
				return true
			}
		}
	}
	return false
}

// below says whether a path is another one or lies below it.
func below(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// fieldFinding says an error of the API as a finding.
func fieldFinding(m *render.Manifest, err *field.Error) v1alpha1.Finding {
	f := v1alpha1.Finding{Field: err.Field, Rule: strings.TrimPrefix(string(err.Type), "FieldValue"), Message: sentence(err)}
	locate(&f, m)
	return f
}

// locate finds the place of the field of a finding.
func locate(f *v1alpha1.Finding, m *render.Manifest) {
	if p := render.Locate(m.Expr(), f.Field); p.IsValid() {
		f.File, f.Line, f.Column = p.Filename, p.Line, p.Column
	}
	place(f, m)
}
