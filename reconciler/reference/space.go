package reference

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Entry is an object with its facts.
type Entry struct {
	Head  *render.Head
	Facts *Facts
}

// Suspect is a mistake, as far as the objects of a namespace tell that are
// declared with it.
type Suspect struct {
	Head    *render.Head
	Finding v1alpha1.Finding
	// Selector, if there is one, selects nothing that is declared. There may be
	// pods that somebody else has made.
	Selector labels.Selector
}

// Space holds the objects of one namespace against each other: selectors
// against the labels of pods, and ports against their names. What it says does not
// depend on which files the objects are in.
func Space(entries []Entry) []Suspect {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Head.Resource.Kind, b.Head.Resource.Kind), strings.Compare(a.Head.Key.Name, b.Head.Key.Name),
			strings.Compare(a.Head.Resource.Group, b.Head.Resource.Group))
	})
	s := &space{byLabel: map[string][]Entry{}, services: map[string]*Facts{}}
	for _, e := range entries {
		s.add(e)
	}
	var out []Suspect
	for _, e := range entries {
		out = append(out, s.backends(e)...)
		if e.Facts.Selects != nil && e.Facts.Selects.Selector != nil && !e.Facts.Selects.Selector.Empty() {
			out = append(out, s.selects(e)...)
		}
	}
	return out
}

// space is the objects of a namespace, ready to be asked.
type space struct {
	pods     []Entry
	byLabel  map[string][]Entry // the pods with a label, by "key=value"
	services map[string]*Facts  // by name
	operated []Entry
	opaque   bool
	hints    int // that were given
}

// maxHints bounds how many mistakes of a namespace have a hint, and maxNear among
// how many pods it is looked for.
const maxHints, maxNear = 20, 1000

func (s *space) add(e Entry) {
	s.opaque = s.opaque || e.Facts.Opaque
	if e.Facts.Operated {
		s.operated = append(s.operated, e)
	}
	if e.Facts.Any || len(e.Facts.Ports) > 0 {
		s.services[e.Head.Key.Name] = e.Facts
	}
	if p := e.Facts.Pods; p != nil {
		s.pods = append(s.pods, e)
		for key, value := range p.Labels {
			s.byLabel[key+"="+value] = append(s.byLabel[key+"="+value], e)
		}
	}
}

// backends wants the ports that an Ingress names to be those of the Services.
func (s *space) backends(e Entry) (out []Suspect) {
	for i := range e.Facts.Needs {
		n := &e.Facts.Needs[i]
		f := s.services[n.Ref.Key.Name]
		if n.Port == "" || n.Ref.Resource.Kind != "Service" || f == nil || f.Any {
			continue
		}
		if slices.ContainsFunc(f.Ports, func(p Port) bool { return n.Port == p.Name || n.Port == p.Number }) {
			continue
		}
		finding := n.PortAt.finding(e.Head, RulePort, fmt.Sprintf("%s has no port %s, so %s", n.Ref, n.Port, n.Why))
		finding.Hint = "it has " + portsText(f.Ports)
		out = append(out, Suspect{Head: e.Head, Finding: finding})
	}
	return out
}

func portsText(ports []Port) string {
	var out []string
	for _, p := range ports {
		if p.Name != "" {
			out = append(out, fmt.Sprintf("%s (%s)", p.Name, p.Number))
		} else {
			out = append(out, p.Number)
		}
	}
	return strings.Join(out, ", ")
}

// selects wants a selector to select pods, and these to have the ports that
// are named.
func (s *space) selects(e Entry) (out []Suspect) {
	sel := e.Facts.Selects
	var selected []Entry
	for _, p := range s.candidates(sel.Selector) {
		if sel.Selector.Matches(p.Facts.Pods.Labels) {
			selected = append(selected, p)
		}
	}
	if len(selected) == 0 {
		if s.opaque || s.operates(sel.Selector) {
			return nil
		}
		f := sel.finding(e.Head, RuleNone, fmt.Sprintf("the selector %s selects no pods: nothing in the namespace %s makes pods with these labels", sel.Selector, e.Head.Key.Namespace))
		f.Hint = s.near(sel.Selector)
		return []Suspect{{Head: e.Head, Finding: f, Selector: sel.Selector}}
	}
	for i := range sel.Named {
		n := &sel.Named[i]
		if slices.ContainsFunc(selected, func(p Entry) bool { return slices.Contains(p.Facts.Pods.Ports, n.Name) }) {
			continue
		}
		f := n.finding(e.Head, RulePort, fmt.Sprintf("the pods of %s have no port of the name %s, so nothing that is sent to the port of the Service arrives", selected[0].Head.Object(), n.Name))
		if ports := selected[0].Facts.Pods.Ports; len(ports) > 0 {
			f.Hint = "they have " + strings.Join(ports, ", ")
		} else {
			f.Hint = "name the port of the container, or write its number"
		}
		out = append(out, Suspect{Head: e.Head, Finding: f})
	}
	return out
}

// candidates are the pods that a selector may select: those with one of its
// labels, where it asks for one.
func (s *space) candidates(sel labels.Selector) []Entry {
	requirements, _ := sel.Requirements()
	for _, r := range requirements {
		if v := r.Values(); len(v) == 1 && (r.Operator() == selection.Equals || r.Operator() == selection.In || r.Operator() == selection.DoubleEquals) {
			return s.byLabel[r.Key()+"="+v.UnsortedList()[0]]
		}
	}
	return s.pods
}

// operates says whether an operator probably makes the pods: a label is named
// after a custom resource, or after the group of one.
func (s *space) operates(sel labels.Selector) bool {
	requirements, _ := sel.Requirements()
	for _, e := range s.operated {
		for _, r := range requirements {
			domain, _, _ := strings.Cut(r.Key(), "/")
			if r.Values().Has(e.Head.Key.Name) || domain != r.Key() && strings.HasSuffix("."+e.Head.Resource.Group, "."+domain) {
				return true
			}
		}
	}
	return false
}

// near names what makes pods with the most of the labels of a selector, and
// how they differ; "" where there is none.
func (s *space) near(sel labels.Selector) string {
	requirements, _ := sel.Requirements()
	best, hint := 0, ""
	if s.hints++; s.hints > maxHints {
		return ""
	}
	for _, e := range s.pods[:min(len(s.pods), maxNear)] {
		same, differs := 0, []string(nil)
		for _, r := range requirements {
			have, ok := e.Facts.Pods.Labels[r.Key()]
			switch {
			case r.Matches(e.Facts.Pods.Labels):
				same += 2
			case ok:
				same++
				differs = append(differs, r.Key()+"="+have)
			default:
				differs = append(differs, "no "+r.Key())
			}
		}
		if same > best {
			best, hint = same, fmt.Sprintf("the pods of %s have %s", e.Head.Object(), strings.Join(differs, ", "))
		}
	}
	return hint
}

// finding is a mistake at the place of a value.
func (p *Place) finding(h *render.Head, rule, message string) v1alpha1.Finding {
	f := v1alpha1.Finding{File: p.File, Line: p.Line, Column: p.Column, Object: h.Object(), Field: p.Field, Rule: rule, Message: message}
	if f.Line == 0 {
		f.File, f.Line, f.Column = h.File, h.Line, h.Column
	}
	return f
}

// Missing is the finding that what an object speaks of is not there. sure says
// that the cluster has been asked.
func (n *Need) Missing(h *render.Head, sure bool) v1alpha1.Finding {
	where := "is neither in the commit nor in the cluster"
	if !sure {
		where = "is not among these files"
	}
	return n.finding(h, RuleMissing, fmt.Sprintf("%s %s: %s", n.Ref, where, n.Why))
}

// May says whether a program probably makes what an object speaks of: a custom
// resource of the namespace names it, or a program's arguments do, or it is named
// after a custom resource.
func (n *Need) May(entries []Entry) bool {
	for _, e := range entries {
		name := e.Head.Key.Name
		after := e.Facts.Operated && (n.Ref.Key.Name == name || strings.HasPrefix(n.Ref.Key.Name, name+"-"))
		if after || slices.Contains(e.Facts.Makes, n.Ref.Key.Name) {
			return true
		}
	}
	return false
}
