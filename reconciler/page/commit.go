package page

import (
	"cmp"
	"strconv"
	"time"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// commitView is the page of one commit.
type commitView struct {
	commitRow
	Rest         string // the message below its first line
	Branch       string
	Parent       string // the page of the parent; "" where it is not known
	ParentShort  string
	Steps        []step
	Findings     []findingView
	Warned       []findingView
	Unhealthy    []healthView
	Consequences []consequenceView
	Changes      []changeView
	Omitted      int32 // changes that the commit does not carry
	Hidden       int   // what the viewer may not see
	Sign         *v1alpha1.CommitSignature
	RolledBackTo string // short
	RolledHref   string
	Unchanged    int32
	Percent      int // of the objects that are healthy
}

type findingView struct {
	Place               string // file:line:col
	File                string
	Rule, Message, Hint string
	Object, Field, Href string
}

// healthView is an object with what is wrong with it.
type healthView struct {
	Icon                  string
	Object, Href          string
	Kind, Name, Namespace string
	State, Health         string
	Message               string
}

type consequenceView struct{ Kind, Object, Href, Message, State string }

// changeView is what the commit did to one object.
type changeView struct {
	Action, Sign          string
	Icon                  string
	Kind, Name, Namespace string
	Object, Href          string
	Place                 string
	Fields                []v1alpha1.FieldChange
	Open                  bool
}

var signs = map[string]string{"create": "+", "update": "~", "delete": "−", "replace": "±"}

// openChanges is how many changes show their fields at once.
const openChanges = 12

// commitOf decides what is shown of a commit. maySee and href speak of
// "Kind/namespace/name"; named finds a commit of the repository by its SHA.
func commitOf(c *v1alpha1.Commit, now time.Time, maySee func(string) bool, href func(string) string, named func(sha string) string) commitView {
	s := &c.Status
	v := commitView{commitRow: rowOf(c, now), Branch: c.Spec.Branch, Parent: named(c.Spec.Parent), ParentShort: short(c.Spec.Parent),
		Omitted: s.ChangesOmitted, Sign: s.Signature, RolledBackTo: short(s.RolledBackTo), RolledHref: named(s.RolledBackTo), Unchanged: s.Unchanged}
	first, rest := title(c.Spec.Message)
	v.Title, v.Rest = cut(first, 1000), cut(rest, 20_000)
	if s.Objects > 0 {
		v.Percent = int(100 * int64(s.Ready) / int64(s.Objects))
	}
	if s.SeenTime != nil {
		v.Steps = append([]step{{Name: "Seen", State: "seen", At: momentOf(s.SeenTime.Time, now), Done: true}}, stepsOf(s, now)...)
	}
	shown := func(object string) bool {
		if object == "" || maySee(object) {
			return true
		}
		v.Hidden++
		return false
	}
	findings := func(all []v1alpha1.Finding) (out []findingView) {
		for i := range all {
			if f := &all[i]; shown(f.Object) {
				out = append(out, findingView{Place: place(f.File, f.Line, f.Column), File: f.File, Rule: f.Rule, Message: f.Message, Hint: f.Hint,
					Object: f.Object, Field: f.Field, Href: href(f.Object)})
			}
		}
		return out
	}
	v.Findings, v.Warned = findings(s.Findings), findings(s.Warnings)
	for _, u := range s.Unhealthy {
		if shown(u.Object) {
			v.Unhealthy = append(v.Unhealthy, healthViewOf(u, href))
		}
	}
	for _, q := range s.Consequences {
		if shown(q.Object) {
			state := stateWarn
			if q.Kind == "DataLoss" || q.Kind == "NamespaceDelete" {
				state = stateBad
			}
			v.Consequences = append(v.Consequences, consequenceView{q.Kind, q.Object, href(q.Object), q.Message, state})
		}
	}
	for i := range s.Changes {
		if d := &s.Changes[i]; shown(d.Object) {
			v.Changes = append(v.Changes, changeOf(d, len(v.Changes) < openChanges, href))
		}
	}
	return v
}

func changeOf(d *v1alpha1.CommitChange, open bool, href func(string) string) changeView {
	kind, key := splitObject(d.Object)
	c := changeView{Action: d.Action, Sign: cmp.Or(signs[d.Action], "·"), Icon: kindIcon(kind), Kind: kind, Name: key.Name, Namespace: key.Namespace,
		Object: d.Object, Place: place(d.File, d.Line, 0), Open: open}
	if d.Action != "delete" {
		c.Href = href(d.Object)
	}
	for _, f := range d.Fields {
		// The reconciler hides them already; what must never be seen is hidden twice.
		if kind == "Secret" && (f.Old != "" || f.New != "") {
			f.Old, f.New = hidden(f.Old), hidden(f.New)
		}
		c.Fields = append(c.Fields, v1alpha1.FieldChange{Path: cut(f.Path, 500), Old: cut(f.Old, 2000), New: cut(f.New, 2000)})
	}
	return c
}

func hidden(s string) string {
	if s == "" {
		return ""
	}
	return "(hidden)"
}

func healthViewOf(u v1alpha1.ObjectHealth, href func(string) string) healthView {
	kind, key := splitObject(u.Object)
	return healthView{Icon: kindIcon(kind), Object: u.Object, Href: href(u.Object), Kind: kind, Name: key.Name, Namespace: key.Namespace,
		State: stateOf(health.Status(u.Health)), Health: u.Health, Message: u.Message}
}

// place is where something is written: file:line:col.
func place(file string, line, column int) string {
	if file == "" || line <= 0 {
		return file
	}
	file += ":" + strconv.Itoa(line)
	if column > 0 {
		file += ":" + strconv.Itoa(column)
	}
	return file
}

// commitNames finds the pages of the commits of a repository by SHA.
func commitNames(all []*v1alpha1.Commit, repository string) func(string) string {
	return func(sha string) string {
		for _, c := range all {
			if sha != "" && c.Spec.SHA == sha && (repository == "" || c.Spec.Repository == repository) {
				return hrefOf(commits, keyOf(c))
			}
		}
		return ""
	}
}

func commitPage(w *world, name string) (content, bool) {
	o, ok := w.get(commits, schema.Key{Name: name})
	if !ok {
		return content{}, false
	}
	c, ok := o.(*v1alpha1.Commit)
	if !ok {
		return content{}, false
	}
	v := commitOf(c, w.now, w.maySee, w.hrefOfObject, commitNames(w.commits(), c.Spec.Repository))
	return content{Title: v.Short + " " + v.Title, Section: "commits", Live: "commits", Body: v}, true
}
