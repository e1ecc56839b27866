package page

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// objectView is the page of one object.
type objectView struct {
	Kind, Icon, Short string
	Name, Namespace   string
	Group             string
	State, Health     string
	Message           string
	Age               moment
	Missing           bool
	Tab               string
	Tabs              []chip
	Graph             graph
	Facts             []fact
	Conditions        []conditionView
	Labels            []string
	Origin            *originView
	OriginOf          string // the owner that Git declares, where the object itself is not from Git
	Drift             string
	Events            []eventView
	Warnings          int
	YAML              []yamlLine
	Problem           string
}

// fact is a line of what there is to know.
type fact struct{ Name, Value, Href string }

type originView struct {
	Repository, RepositoryHref string
	Place, FileHref            string
	Commit, CommitHref         string
	Author                     person
	When                       moment
}

type conditionView struct {
	Type, Status, Reason, Message string
	State                         string
	When                          moment
}

type eventView struct {
	Type, Reason, Message string
	Object, Href          string // what it is about, where that is not the object of the page
	Count                 int32
	When                  moment
	State                 string
	at                    time.Time
}

func originViewOf(o *origin, now time.Time, named func(string) string) *originView {
	if o == nil {
		return nil
	}
	return &originView{Repository: o.Repository, RepositoryHref: link("repositories/" + url.PathEscape(o.Repository)), Place: place(o.File, o.Line, 0),
		FileHref: link("objects", "repository", o.Repository, "file", o.File), Commit: short(o.Commit), CommitHref: named(o.Commit),
		Author: personOf(o.Author), When: momentOf(o.Time, now)}
}

// maxEvents is how many events a page shows.
const maxEvents = 50

// eventsOf are the events about the objects of a tree, the newest first. about
// says whether an event is about one of them.
func eventsOf(all []*corev1.Event, self schema.Object, about func(*corev1.ObjectReference) bool, now time.Time, href func(string) string) []eventView {
	var out []eventView
	for _, e := range all {
		if !about(&e.InvolvedObject) {
			continue
		}
		v := eventView{Type: e.Type, Reason: cut(e.Reason, 100), Message: cut(e.Message, 1000), Count: max(e.Count, 1), State: stateIdle, at: eventTime(e)}
		if e.Series != nil {
			v.Count = max(v.Count, e.Series.Count)
		}
		v.When = momentOf(v.at, now)
		if e.Type == corev1.EventTypeWarning {
			v.State = stateWarn
		}
		if self == nil || e.InvolvedObject.UID != self.GetUID() {
			v.Object = e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name
			v.Href = href(strings.Join(slices.DeleteFunc([]string{e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name}, func(s string) bool { return s == "" }), "/"))
		}
		out = append(out, v)
	}
	slices.SortStableFunc(out, func(a, b eventView) int { return cmp.Or(b.at.Compare(a.at), strings.Compare(a.Reason, b.Reason)) })
	return out[:min(len(out), maxEvents)]
}

// eventTime is when an event was last seen, in whichever field its writer
// says so.
func eventTime(e *corev1.Event) time.Time {
	t := e.CreationTimestamp.Time
	for _, u := range []time.Time{e.FirstTimestamp.Time, e.EventTime.Time, e.LastTimestamp.Time} {
		if u.After(t) {
			t = u
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(t) {
		t = e.Series.LastObservedTime.Time
	}
	return t
}

// conditionViews shows conditions, what is wrong before what is well.
func conditionViews(all []condition, now time.Time) []conditionView {
	var out []conditionView
	for _, c := range all {
		v := conditionView{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: cut(c.Message, 1000), When: momentOf(c.Time, now), State: stateIdle}
		switch {
		case c.Status == "Unknown":
			v.State = stateWarn
		case (c.Status == "True") != inverse(c.Type):
			v.State = stateOK
		default:
			v.State = stateBad
		}
		out = append(out, v)
	}
	slices.SortStableFunc(out, func(a, b conditionView) int { return cmp.Compare(stateRank(a.State), stateRank(b.State)) })
	return out
}

// inverse says that a condition is bad news when it is true.
func inverse(kind string) bool {
	for _, part := range []string{"Pressure", "Failure", "Failed", "Unavailable", "Stalled", "Degraded", "Terminating", "DisruptionTarget", "ReplicaFailure", "Reconciling", "Deletion", "Suspended", "Problem", "Dangling"} {
		if strings.Contains(kind, part) {
			return true
		}
	}
	return false
}

// tabs of an object. Each is a page of its own.
func tabsOf(r *schema.Resource, key schema.Key, on string, warnings, events int) []chip {
	href := hrefOf(r, key)
	return []chip{
		{Label: "Overview", Href: href, On: on == ""},
		{Label: "Events", Href: href + "?tab=events", On: on == "events", Count: events, State: map[bool]string{true: stateWarn}[warnings > 0]},
		{Label: "YAML", Href: href + "?tab=yaml", On: on == "yaml"},
	}
}

func objectPage(w *world, group, plural, namespace, name string, q url.Values) (content, bool) {
	r := w.find(group, plural)
	if r == nil {
		return content{}, false
	}
	key := schema.Key{Name: name}
	if r.Namespaced {
		key.Namespace = namespace
	}
	it := item{ref: ref{r, key}}
	if !w.viewer.mayGet(r, key) {
		return content{}, false
	}
	if o, ok := w.cache.Get(r.Stored(), key); ok {
		it.object = o
	}
	it.health, it.origin = w.health(it.object), w.originOf(it.ref)
	if it.object == nil && it.origin == nil {
		return content{}, false
	}
	v := w.objectView(it, q.Get("tab"))
	return content{Title: it.resource.Kind + " " + key.Name, Section: "objects", Live: "objects,events", Body: v}, true
}

func (w *world) objectView(it item, tab string) objectView {
	if tab != "events" && tab != "yaml" {
		tab = ""
	}
	v := objectView{Kind: it.resource.Kind, Icon: kindIcon(it.resource.Kind), Short: shortKind(it.resource.Kind), Name: it.key.Name, Namespace: it.key.Namespace,
		Group: it.resource.APIVersion(), State: stateOf(it.health.Status), Health: string(it.health.Status), Message: cut(it.health.Message, 1000), Tab: tab, Missing: it.object == nil}
	named := commitNames(w.commits(), "")
	chain := w.owners(it)
	v.Origin = originViewOf(chain[0].origin, w.now, named)
	if len(chain) > 1 && chain[0].origin != nil {
		v.OriginOf = chain[0].resource.Kind + "/" + chain[0].key.Name
	}
	v.Drift = driftOf(listOf[*v1alpha1.Repository](w, ""), chain[0].ref)
	known := w.family(it)
	if it.object != nil {
		v.Age = momentOf(it.object.GetCreationTimestamp().Time, w.now)
	}
	v.Events = eventsOf(listOf[*corev1.Event](w, eventNamespace(it.key)), it.object, known, w.now, w.hrefOfObject)
	for i := range v.Events {
		if v.Events[i].Type == corev1.EventTypeWarning {
			v.Warnings++
		}
	}
	v.Tabs = tabsOf(it.resource, it.key, tab, v.Warnings, len(v.Events))
	switch tab {
	case "yaml":
		if it.object != nil {
			var err error
			if v.YAML, err = yamlOf(it.object); err != nil {
				v.Problem = err.Error()
			}
		}
	case "":
		v.Graph = layout(w.chainTree(chain))
		v.Facts = factsOf(&it, func(node string) string { return w.hrefOfObject("Node/" + node) })
		v.Conditions = conditionViews(conditionsOf(it.object), w.now)
		v.Labels = labelsOf(it.object)
	}
	return v
}

// eventNamespace is where the events about an object are.
func eventNamespace(key schema.Key) string { return cmp.Or(key.Namespace, "default") }

// family says whether an event is about the object or what it owns.
func (w *world) family(it item) func(*corev1.ObjectReference) bool {
	uids, names := map[string]bool{}, map[string]bool{it.resource.Kind + "/" + it.key.Name: true}
	var walk func(item, int)
	walk = func(it item, depth int) {
		if it.object != nil {
			uids[string(it.object.GetUID())] = true
		}
		if depth < maxChain && len(uids) < 10_000 {
			for _, c := range w.children(it.resource, it.object) {
				walk(c, depth+1)
			}
		}
	}
	walk(it, 0)
	return func(o *corev1.ObjectReference) bool {
		if o.UID != "" {
			return uids[string(o.UID)]
		}
		return names[o.Kind+"/"+o.Name]
	}
}

// chainTree is the tree of an object: its owners above, what it owns below.
func (w *world) chainTree(chain []item) *card {
	t := &tree{now: w.now, containers: true, fold: 12, children: func(it *item) []item { return w.children(it.resource, it.object) }}
	self := &chain[len(chain)-1]
	at := t.build(self, len(chain))
	at.Current = true
	for i := len(chain) - 2; i >= 0; i-- {
		c := cardOf(&chain[i], w.now)
		c.kids = []*card{at}
		at = c
	}
	return at
}

// driftOf is what a repository last said of the drift of an object; "" nothing.
func driftOf(repositories []*v1alpha1.Repository, k ref) string {
	for _, r := range repositories {
		for _, d := range r.Status.Drifted {
			if kind, key := splitObject(d.Object); kind == k.resource.Kind && key == k.key {
				return cmp.Or(d.Message, d.Health)
			}
		}
	}
	return ""
}

// labelsOf are the labels in their order.
func labelsOf(o schema.Object) []string {
	if o == nil {
		return nil
	}
	var out []string
	for k, v := range o.GetLabels() {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}
