package registry

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/support"
)

// unsupported refuses what a write asks for and this cluster does not honour,
// whoever writes. What was stored before the cluster refused it stays, and does
// not stand in the way of other changes: an update is asked only for what it
// brings. old is nil for a new object.
//
// A field of which there is an error already has no second one.
func unsupported(errs field.ErrorList, o, old schema.Object) field.ErrorList {
	for _, f := range newly(support.Refuse, o, old) {
		e := f.Error()
		if !slices.ContainsFunc(errs, func(have *field.Error) bool { return below(have.Field, e.Field) }) {
			errs = append(errs, e)
		}
	}
	return errs
}

// below says whether a path is another one or lies below it.
func below(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// newly is what a write brings about which something is done.
func newly(do support.Action, o, old schema.Object) []support.Finding {
	found := support.Check(o)
	if len(found) == 0 {
		return nil
	}
	if old != nil {
		found = support.New(found, support.Check(old))
	}
	var out []support.Finding
	for _, f := range found {
		if f.Row.API == do {
			out = append(out, f)
		}
	}
	return out
}
