package page

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/schema"
)

// objectQuery is which objects are asked for.
type objectQuery struct {
	Repository, File      string
	Kind, Namespace, Text string
	Health                string
	By                    string // "file", "namespace" or "kind"
	All                   bool   // those too that Git does not declare
	Page                  int
}

func readObjectQuery(q url.Values) objectQuery {
	get := func(name string) string { return cut(strings.TrimSpace(q.Get(name)), maxText) }
	o := objectQuery{Repository: get("repository"), File: cut(q.Get("file"), 4096), Kind: get("kind"), Namespace: get("namespace"), Text: get("q"),
		Health: get("health"), By: get("by"), All: q.Get("all") != "", Page: pageNumber(q)}
	if o.By != "namespace" && o.By != "kind" {
		o.By = "file"
	}
	return o
}

func (q objectQuery) href(change func(*objectQuery)) string {
	q.Page = 1
	change(&q)
	by, all := q.By, ""
	if by == "file" {
		by = ""
	}
	if q.All {
		all = "1"
	}
	return link("objects", "repository", q.Repository, "file", q.File, "kind", q.Kind, "namespace", q.Namespace, "health", q.Health,
		"q", q.Text, "by", by, "all", all, "page", pageText(q.Page))
}

// matches says whether an object is asked for, whatever its health.
func (q *objectQuery) matches(it *item) bool {
	switch {
	case q.Kind != "" && it.resource.Kind != q.Kind,
		q.Namespace != "" && it.key.Namespace != q.Namespace,
		(q.Repository != "" || q.File != "") && it.origin == nil,
		q.Repository != "" && it.origin.Repository != q.Repository,
		q.File != "" && it.origin.File != q.File:
		return false
	}
	return q.Text == "" || contains(it.key.Name, q.Text) || contains(it.resource.Kind, q.Text) || contains(it.key.Namespace, q.Text) ||
		it.origin != nil && contains(it.origin.File, q.Text) || contains(it.health.Message, q.Text)
}

// objectsView is the page of objects.
type objectsView struct {
	Query        objectQuery
	Health       []chip
	Origins      []chip // from Git, all
	Groupings    []chip
	Kinds        []string
	Namespaces   []string
	Repositories []string
	Groups       []group
	Pages        pages
	Filtered     bool
	Clear        string
}

// group is a heading with its objects. A list of objects by file has two
// levels: repository, file.
type group struct {
	Key        string // for the browser to find it again
	Above      string // the outer heading, on the first group below it
	AboveIcon  string
	AboveHref  string
	Icon       string
	Title      string
	Href       string
	Commit     string
	CommitHref string
	Author     person
	When       moment
	Counts     []count
	Rows       []objectRow
}

// count is how many objects have a state.
type count struct {
	State, Label string
	N            int
}

// objectRow is an object in a list.
type objectRow struct {
	Kind, Icon, Short string
	Name, Namespace   string
	Href              string
	State, Health     string
	Message           string
	Place             string
	Age               moment
	Pods              []square
	MorePods          int
	Ready             string
}

// square is a pod in one glance.
type square struct{ Name, State, Href string }

// objects decides what a list of objects shows. all are in the order of
// declared.
func objects(all []item, q objectQuery) (objectsView, []item) {
	v := objectsView{Query: q, Clear: link("objects"), Filtered: q.Repository+q.File+q.Kind+q.Namespace+q.Text+q.Health != ""}
	byHealth, kinds, namespaces, repositories := map[string]int{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	var found []item
	for i := range all {
		it := &all[i]
		kinds[it.resource.Kind] = true
		if it.key.Namespace != "" {
			namespaces[it.key.Namespace] = true
		}
		if it.origin != nil {
			repositories[it.origin.Repository] = true
		}
		if !q.matches(it) {
			continue
		}
		byHealth[string(it.health.Status)]++
		byHealth[""]++
		if q.Health == "" || q.Health == string(it.health.Status) {
			found = append(found, *it)
		}
	}
	v.Kinds, v.Namespaces, v.Repositories = sorted(kinds), sorted(namespaces), sorted(repositories)
	v.Health = []chip{{Label: "All", Count: byHealth[""], On: q.Health == "", Href: q.href(func(q *objectQuery) { q.Health = "" })}}
	for _, s := range healthStates {
		name := string(s)
		if n := byHealth[name]; n > 0 || q.Health == name {
			v.Health = append(v.Health, chip{Label: name, State: stateOf(s), Count: n, On: q.Health == name, Href: q.href(func(q *objectQuery) { q.Health = toggled(q.Health, name) })})
		}
	}
	for _, o := range []struct {
		label string
		all   bool
	}{{"From Git", false}, {"Everything", true}} {
		v.Origins = append(v.Origins, chip{Label: o.label, On: q.All == o.all, Href: q.href(func(q *objectQuery) { q.All = o.all })})
	}
	for _, by := range []string{"file", "namespace", "kind"} {
		v.Groupings = append(v.Groupings, chip{Label: strings.ToUpper(by[:1]) + by[1:], On: q.By == by, Href: q.href(func(q *objectQuery) { q.By = by })})
	}
	slices.SortStableFunc(found, func(a, b item) int { return compareItems(q.By, &a, &b) })
	part, p := paged(found, q.Page, perPage, func(n int) string { return q.href(func(q *objectQuery) { q.Page = n }) })
	v.Pages = p
	return v, part
}

func sorted(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func compareItems(by string, a, b *item) int {
	name := cmp.Or(strings.Compare(a.key.Namespace, b.key.Namespace), strings.Compare(a.key.Name, b.key.Name))
	kind := strings.Compare(a.resource.Kind, b.resource.Kind)
	switch by {
	case "namespace":
		return cmp.Or(strings.Compare(a.key.Namespace, b.key.Namespace), kind, name)
	case "kind":
		return cmp.Or(kind, name)
	}
	switch {
	case a.origin == nil && b.origin == nil:
		return cmp.Or(kind, name)
	case a.origin == nil:
		return 1
	case b.origin == nil:
		return -1
	}
	return cmp.Or(strings.Compare(a.origin.Repository, b.origin.Repository), strings.Compare(a.origin.File, b.origin.File), cmp.Compare(a.origin.Line, b.origin.Line))
}

// grouped puts the objects of a page below headings. pods finds the pods of an
// object.
func grouped(part []item, q objectQuery, now time.Time, pods func(*item) []square, named func(sha string) string) []group {
	var out []group
	above := "\x00"
	for i := range part {
		it := &part[i]
		g := headingOf(it, q, now, named)
		if len(out) == 0 || out[len(out)-1].Key != g.Key {
			if g.Above == above {
				g.Above = ""
			} else {
				above = g.Above
			}
			out = append(out, g)
		}
		last := &out[len(out)-1]
		last.Rows = append(last.Rows, objectRowOf(it, now, pods))
		last.Counts = counted(last.Counts, it.health.Status)
	}
	return out
}

func headingOf(it *item, q objectQuery, now time.Time, named func(sha string) string) group {
	switch {
	case q.By == "namespace":
		ns := cmp.Or(it.key.Namespace, "Cluster-wide")
		return group{Key: "ns/" + ns, Icon: "namespace", Title: ns, Href: q.href(func(q *objectQuery) { q.Namespace = it.key.Namespace })}
	case q.By == "kind":
		return group{Key: "kind/" + it.resource.String(), Icon: kindIcon(it.resource.Kind), Title: it.resource.Kind, Href: q.href(func(q *objectQuery) { q.Kind = it.resource.Kind })}
	case it.origin == nil:
		return group{Key: "none", Above: "Not from Git", AboveIcon: "object", Icon: kindIcon(it.resource.Kind), Title: "Made by the cluster itself and by operators"}
	}
	o := it.origin
	return group{Key: "file/" + o.Repository + "/" + o.File, Above: o.Repository, AboveIcon: "repository", AboveHref: link("repositories/" + url.PathEscape(o.Repository)),
		Icon: "file", Title: o.File, Href: q.href(func(q *objectQuery) { q.Repository, q.File = o.Repository, o.File }),
		Commit: short(o.Commit), CommitHref: named(o.Commit), Author: personOf(o.Author), When: momentOf(o.Time, now)}
}

// counted adds an object to counts, which stay in the order of healthStates.
func counted(counts []count, s health.Status) []count {
	if len(counts) == 0 {
		for _, s := range healthStates {
			counts = append(counts, count{State: stateOf(s), Label: string(s)})
		}
	}
	for i := range counts {
		if counts[i].Label == string(s) {
			counts[i].N++
		}
	}
	return counts
}

// maxSquares is how many pods a row shows.
const maxSquares = 10

func objectRowOf(it *item, now time.Time, pods func(*item) []square) objectRow {
	r := objectRow{Kind: it.resource.Kind, Icon: kindIcon(it.resource.Kind), Short: shortKind(it.resource.Kind), Name: it.key.Name, Namespace: it.key.Namespace,
		Href: hrefOf(it.resource, it.key), State: stateOf(it.health.Status), Health: string(it.health.Status), Message: cut(it.health.Message, 300)}
	if it.origin != nil {
		r.Place = place(it.origin.File, it.origin.Line, 0)
	}
	if it.object != nil {
		r.Age = momentOf(it.object.GetCreationTimestamp().Time, now)
	}
	r.Pods = pods(it)
	if ok := 0; len(r.Pods) > 0 {
		for _, s := range r.Pods {
			if s.State == stateOK {
				ok++
			}
		}
		r.Ready = strconv.Itoa(ok) + "/" + strconv.Itoa(len(r.Pods))
		if n := len(r.Pods); n > maxSquares {
			r.Pods, r.MorePods = r.Pods[:maxSquares], n-maxSquares
		}
	}
	return r
}

// runs are the kinds whose rows show their pods.
var runs = map[string]bool{"Deployment": true, "ReplicaSet": true, "ReplicationController": true, "StatefulSet": true, "DaemonSet": true, "Job": true, "CronJob": true}

// squares are the pods of an object, the worst first.
func (w *world) squares(it *item) []square {
	if it.object == nil || !runs[it.resource.Kind] {
		return nil
	}
	return squaresOf(w.pods(it.resource, it.object, 0), w.health)
}

var podResource = schema.ResourceFor[*corev1.Pod]()

func squaresOf(pods []*corev1.Pod, healthOf func(schema.Object) health.Health) []square {
	out := make([]square, 0, len(pods))
	for _, p := range pods {
		out = append(out, square{Name: p.Name, State: stateOf(healthOf(p).Status), Href: hrefOf(podResource, keyOf(p))})
	}
	rank := map[string]int{stateBad: 0, stateBusy: 1, stateOK: 3}
	slices.SortStableFunc(out, func(a, b square) int {
		ra, ok := rank[a.State]
		if !ok {
			ra = 2
		}
		rb, ok := rank[b.State]
		if !ok {
			rb = 2
		}
		return cmp.Compare(ra, rb)
	})
	return out
}

func objectsPage(w *world, values url.Values) content {
	q := readObjectQuery(values)
	all := w.declared
	if q.All {
		all = w.everything
	}
	v, part := objects(all(), q)
	v.Groups = grouped(part, q, w.now, w.squares, commitNames(w.commits(), ""))
	return content{Title: "Objects", Section: "objects", Live: "objects", Body: v}
}
