package reconciler

import (
	"path"
	"strings"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// leave leaves out the units that findings are about, where the repository
// says that a commit goes on without them. It says whether that is enough:
// a finding about the commit as a whole, or one about a unit that is left out
// already, is not.
func (ev *evaluation) leave(findings []v1alpha1.Finding, w World) bool {
	if w.Spec == nil || w.Spec.OnError != v1alpha1.OnErrorContinue {
		return false
	}
	more := map[string]bool{}
	for _, f := range findings {
		unit := ev.unitOf(f.File)
		if f.File == "" || ev.left[unit] || truncated(f) {
			return false
		}
		more[unit] = true
	}
	if ev.left == nil {
		ev.left = map[string]bool{}
	}
	for unit := range more {
		ev.left[unit] = true
	}
	ev.leftFindings = validate.Sort(append(ev.leftFindings, findings...))
	return true
}

// truncated says whether a finding means that the tree was not read to its end.
func truncated(f v1alpha1.Finding) bool {
	return f.Rule == "TooMany" || f.Rule == "TooLarge" && f.Line == 0 && path.Ext(f.File) == ""
}

// unitOf is the path of the unit that a file belongs to; the file itself where
// none is.
func (ev *evaluation) unitOf(file string) string {
	if _, ok := ev.unit(file); ok {
		return file
	}
	best := ""
	for u := range ev.units.All() {
		for i := range u.heads {
			if u.heads[i].File == file {
				return u.Path
			}
		}
		if path.Ext(u.Path) == "" && strings.HasPrefix(file, u.Path+"/") && len(u.Path) > len(best) {
			best = u.Path
		}
	}
	if best != "" {
		return best
	}
	return file
}

// kept are the objects that the applied part of the tree declares.
func (ev *evaluation) kept() []render.Head {
	if len(ev.left) == 0 {
		return ev.heads()
	}
	var out []render.Head
	for u := range ev.units.All() {
		if !ev.left[u.Path] {
			out = append(out, u.heads...)
		}
	}
	return out
}

// gated are the objects that have to be known to say which of them wait; none
// where none does.
func (ev *evaluation) gated() []render.Head {
	if !ev.anyPlaced() {
		return nil
	}
	return ev.kept()
}
