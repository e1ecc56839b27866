package page

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// repositoryView is a repository, in a list and on its own page.
type repositoryView struct {
	Name, Href    string
	URL, Follows  string // "branch main", "tag ~1.4"
	Path          string
	State, Status string
	Message       string // what is wrong
	Suspended     bool
	Fetched       moment
	Head          revision
	Applied       revision
	Healthy       revision
	Failed        []revision
	Behind        bool // the head is not applied
	Last          *commitRow
	History       []tick
	Health        []count
	Objects       int
	Drifted       []healthView
	Conditions    []conditionView
	Settings      []fact
	Graph         *graph
	File          string // the one file that the tree shows
	AllHref       string
	Files         int
}

// revision is a commit by its SHA.
type revision struct{ Short, SHA, Href string }

// tick is a commit in a row of small marks, the oldest first.
type tick struct{ State, Title, Href string }

// maxTicks is how many commits a repository shows in small.
const maxTicks = 24

// repositoryOf decides what is shown of a repository. all are the commits of
// all repositories, declared what the viewer may list of it.
func repositoryOf(r *v1alpha1.Repository, all []*v1alpha1.Commit, declared []item, now time.Time, maySee func(string) bool, href func(string) string) repositoryView {
	named := commitNames(all, r.Name)
	rev := func(sha string) revision { return revision{short(sha), sha, named(sha)} }
	v := repositoryView{Name: r.Name, Href: link("repositories/" + url.PathEscape(r.Name)), URL: withoutPassword(r.Spec.URL), Follows: follows(&r.Spec, &r.Status), Path: r.Spec.Path,
		Suspended: r.Spec.Suspend, Head: rev(r.Status.Head), Applied: rev(r.Status.Applied), Healthy: rev(r.Status.Healthy),
		Behind: r.Status.Head != "" && r.Status.Head != r.Status.Applied, AllHref: link("objects", "repository", r.Name)}
	if r.Status.LastFetchTime != nil {
		v.Fetched = momentOf(r.Status.LastFetchTime.Time, now)
	}
	for _, sha := range r.Status.Failed {
		v.Failed = append(v.Failed, rev(sha))
	}
	v.commits(r.Name, all, now)
	files := map[string]bool{}
	for i := range declared {
		if it := &declared[i]; it.origin.Repository == r.Name {
			v.Health = counted(v.Health, it.health.Status)
			v.Objects++
			files[it.origin.File] = true
		}
	}
	v.Files = len(files)
	for _, d := range r.Status.Drifted {
		if maySee(d.Object) {
			v.Drifted = append(v.Drifted, healthViewOf(d, href))
		}
	}
	var conditions []condition
	for _, c := range r.Status.Conditions {
		conditions = append(conditions, condition{c.Type, string(c.Status), c.Reason, c.Message, c.LastTransitionTime.Time})
	}
	v.Conditions = conditionViews(conditions, now)
	v.judge()
	v.Settings = settings(&r.Spec)
	return v
}

// commits fills in the newest commit and the history.
func (v *repositoryView) commits(name string, all []*v1alpha1.Commit, now time.Time) {
	for _, c := range newestFirst(all) {
		if c.Spec.Repository != name {
			continue
		}
		row := rowOf(c, now)
		if v.Last == nil {
			v.Last = &row
		}
		if len(v.History) == maxTicks {
			break
		}
		v.History = append(v.History, tick{State: row.State, Title: row.Short + " " + row.Phase + ": " + row.Title, Href: row.Href})
	}
	slices.Reverse(v.History)
}

// judge says how the repository is in a word.
func (v *repositoryView) judge() {
	bad := func(label health.Status) int {
		for _, c := range v.Health {
			if c.Label == string(label) {
				return c.N
			}
		}
		return 0
	}
	for _, c := range v.Conditions {
		if c.Type == "Ready" && c.Status == "False" {
			v.Message = c.Message
		}
	}
	switch {
	case v.Suspended:
		v.State, v.Status = stateIdle, "Suspended"
	case v.Message != "":
		v.State, v.Status = stateBad, "Not ready"
	case bad(health.Degraded) > 0:
		v.State, v.Status = stateBad, "Degraded"
	case bad(health.Missing) > 0:
		v.State, v.Status = stateWarn, "Missing"
	case bad(health.Progressing) > 0:
		v.State, v.Status = stateBusy, "Progressing"
	case v.Applied.SHA == "":
		v.State, v.Status = stateWait, "Waiting"
	default:
		v.State, v.Status = stateOK, "Healthy"
	}
}

// follows says which commit of the repository is wanted.
func follows(s *v1alpha1.RepositorySpec, st *v1alpha1.RepositoryStatus) string {
	switch {
	case s.Commit != "":
		return "commit " + short(s.Commit)
	case s.SemVer != "":
		t := "versions " + s.SemVer
		if st.Tag != "" {
			t += " (" + st.Tag + ")"
		}
		return t
	case s.Tag != "":
		return "tag " + s.Tag
	case s.Branch != "":
		return "branch " + s.Branch
	}
	return "branch main"
}

// withoutPassword is a URL that may be shown.
func withoutPassword(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		if i := strings.LastIndexByte(s, '@'); i >= 0 {
			return s[i+1:]
		}
		return s
	}
	return u.Redacted()
}

// settings are what the repository says of how it is followed.
func settings(s *v1alpha1.RepositorySpec) []fact {
	var out []fact
	add := func(name, value string) {
		if value != "" {
			out = append(out, fact{Name: name, Value: value})
		}
	}
	if s.Path != "" && s.Path != "." {
		add("Path", s.Path)
	}
	if s.Interval != nil {
		add("Polled every", s.Interval.Duration.String())
	}
	if s.Webhook != nil {
		add("Webhook", s.Webhook.Provider)
	}
	if s.Verification != nil {
		mode := s.Verification.Mode
		if mode == "" {
			mode = "Require"
		}
		add("Signatures", mode)
	}
	if s.Decryption != nil {
		add("Secrets", "decrypted in memory")
	}
	if s.Rollback != nil {
		add("Rollback", "automatic")
	}
	if s.OnError == v1alpha1.OnErrorContinue {
		add("On error", "continue with what is right")
	}
	if s.Prune != nil && !*s.Prune {
		add("Prune", "off")
	}
	if s.Priority != 0 {
		add("Priority", plural(int(s.Priority), "point"))
	}
	return out
}

// repositoriesView is the page of repositories.
type repositoriesView struct{ Repositories []repositoryView }

// repositories of the cluster. One that has commits and no object of its own is
// one too.
func (w *world) repositories(declared []item) []repositoryView {
	all := w.commits()
	var out []repositoryView
	for _, r := range listOf[*v1alpha1.Repository](w, "") {
		out = append(out, repositoryOf(r, all, declared, w.now, w.maySee, w.hrefOfObject))
	}
	return out
}

func repositoriesPage(w *world) content {
	return content{Title: "Repositories", Section: "repositories", Live: "commits,repositories,objects", Body: repositoriesView{w.repositories(w.declared())}}
}

var repositoryResource = schema.ResourceFor[*v1alpha1.Repository]()

func repositoryPage(w *world, name string, q url.Values) (content, bool) {
	o, ok := w.get(repositoryResource, schema.Key{Name: name})
	if !ok {
		return content{}, false
	}
	r, ok := o.(*v1alpha1.Repository)
	if !ok {
		return content{}, false
	}
	declared := w.declared()
	v := repositoryOf(r, w.commits(), declared, w.now, w.maySee, w.hrefOfObject)
	v.File = cut(q.Get("file"), 4096)
	t := &tree{now: w.now, fold: 4, children: func(it *item) []item { return w.children(it.resource, it.object) }}
	if files := repositoryTree(name, v.File, declared, t); len(files) > 0 {
		g := layout(files...)
		v.Graph = &g
	}
	return content{Title: "Repository " + name, Section: "repositories", Live: "commits,repositories,objects", Body: v}, true
}
