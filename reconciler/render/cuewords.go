package render

import (
	"regexp"
	"slices"
	"strings"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// CUE says of a value that is none of several alternatives how many errors
// there are, and then why it is not each of them. conflict is one of these.
const emptyDisjunction = "errors in empty disjunction:"

var conflict = regexp.MustCompile(`^conflicting values (.+) and (.+?)(?: \(mismatched types .*\))?$`)

// inWords says of a value that is none of several alternatives what it may be,
// in one finding, and leaves all others as they are.
func inWords(findings []v1alpha1.Finding) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	told := map[string]bool{} // fields
	for _, f := range findings {
		switch {
		case told[f.Field]:
		case !strings.HasSuffix(f.Message, emptyDisjunction):
			out = append(out, f)
		default:
			parts := slices.DeleteFunc(slices.Clone(findings), func(p v1alpha1.Finding) bool { return p.Field != f.Field || p.Message == f.Message })
			one, ok := alternatives(parts)
			switch {
			case ok:
				told[f.Field] = true
				out = append(slices.DeleteFunc(out, func(p v1alpha1.Finding) bool { return p.Field == f.Field }), one)
			case len(parts) == 0:
				f.Message = "it is none of what is allowed"
				out = append(out, f)
			}
		}
	}
	return out
}

// alternatives is one finding of several that say with which values one value
// is in conflict; false: they say something else.
func alternatives(parts []v1alpha1.Finding) (v1alpha1.Finding, bool) {
	var pairs [][]string
	for _, p := range parts {
		m := conflict.FindStringSubmatch(p.Message)
		if m == nil {
			return v1alpha1.Finding{}, false
		}
		pairs = append(pairs, m[1:3])
	}
	if len(pairs) < 2 {
		return v1alpha1.Finding{}, false
	}
	is := pairs[0][1]
	if !slices.Contains(pairs[1], is) {
		is = pairs[0][0]
	}
	var may []string
	for _, p := range pairs {
		switch i := slices.Index(p, is); {
		case i < 0:
			return v1alpha1.Finding{}, false
		case !slices.Contains(may, p[1-i]):
			may = append(may, p[1-i])
		}
	}
	slices.Sort(may)
	f := parts[0]
	f.Message = "must be " + strings.Join(may[:len(may)-1], ", ") + " or " + may[len(may)-1] + ", is " + is
	return f, true
}
