package page

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "0ms", 12 * time.Millisecond: "12ms", 5900 * time.Millisecond: "5.9s", 10 * time.Second: "10s", 30 * time.Second: "30s",
		120 * time.Second: "2m", 130 * time.Second: "2m10s", 600 * time.Second: "10m", 2 * time.Hour: "120m",
	} {
		if got := took(d); got != want {
			t.Errorf("took(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestPerson(t *testing.T) {
	for author, want := range map[string][3]string{
		"Ada Lovelace <ada@example.com>": {"Ada Lovelace", "ada@example.com", "AL"},
		"<ada@example.com>":              {"ada@example.com", "ada@example.com", "AC"},
		"":                               {"unknown", "", "U"},
		"<<>>":                           {"<>", "<>", "?"},
		"雪 <x>":                          {"雪", "x", "雪"},
	} {
		p := personOf(author)
		if got := [3]string{p.Name, p.Mail, p.Initials}; got != want {
			t.Errorf("personOf(%q) = %q, want %q", author, got, want)
		}
	}
}

func TestMiddle(t *testing.T) {
	for _, s := range []string{"", "web", "checkout-7d9c6f5b84-9jr2b", strings.Repeat("雪", 60)} {
		got := middle(s, 23)
		if n := len([]rune(got)); n > 23 {
			t.Errorf("middle(%q) has %d letters", s, n)
		}
		if len([]rune(s)) <= 23 && got != s {
			t.Errorf("middle(%q) = %q", s, got)
		}
	}
	if got := middle("checkout-7d9c6f5b84-9jr2b", 23); got != "checkout-7d…f5b84-9jr2b" {
		t.Errorf("%q", got)
	}
}

// at is a commit at a time; the times are seconds after it was seen.
func at(name string, age time.Duration, phase v1alpha1.CommitPhase, applied, healthy, failed float64) *v1alpha1.Commit {
	micro := func(s float64) *metav1.MicroTime {
		if s == 0 {
			return nil
		}
		return ptr(metav1.NewMicroTime(noon.Add(-age).Add(time.Duration(s * float64(time.Second)))))
	}
	repo, _, _ := strings.Cut(name, "-")
	c := &v1alpha1.Commit{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CommitSpec{Repository: repo, SHA: name + "0123456789", Author: "Ada <a@b>", Message: "change " + name}}
	c.Status = v1alpha1.CommitStatus{Phase: phase, SeenTime: ptr(metav1.NewMicroTime(noon.Add(-age))), AppliedTime: micro(applied), HealthyTime: micro(healthy), FailedTime: micro(failed)}
	return c
}

func TestSteps(t *testing.T) {
	for name, tt := range map[string]struct {
		c    *v1alpha1.Commit
		want string
	}{
		"unseen":     {&v1alpha1.Commit{}, ""},
		"pending":    {at("a-1", 10*time.Second, v1alpha1.CommitPending, 0, 0, 0), "Evaluating 10s…"},
		"applied":    {at("a-1", 10*time.Second, v1alpha1.CommitApplied, .5, 0, 0), "Applied 500ms, Progressing 9.5s…"},
		"healthy":    {at("a-1", time.Hour, v1alpha1.CommitHealthy, .5, 3, 0), "Applied 500ms, Healthy 2.5s"},
		"refused":    {at("a-1", time.Hour, v1alpha1.CommitFailed, 0, 0, .02), "Refused 20ms"},
		"failed":     {at("a-1", time.Hour, v1alpha1.CommitFailed, .5, 0, 600), "Applied 500ms, Failed 10m"},
		"superseded": {at("a-1", time.Hour, v1alpha1.CommitSuperseded, .5, 0, 0), "Applied 500ms"},
	} {
		var got []string
		for _, s := range stepsOf(&tt.c.Status, noon) {
			text := s.Name + " " + s.Took
			if !s.Done {
				text += "…"
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		end := 0
		for _, s := range barOf(&tt.c.Status, noon).Steps {
			if s.X < end || s.W < 2 {
				t.Errorf("%s: step %s begins at %d with %d, the one before ends at %d", name, s.Name, s.X, s.W, end)
			}
			end = s.X + s.W
		}
		if end > barWidth {
			t.Errorf("%s: the bar is %d wide", name, end)
		}
	}
}

func TestTimeline(t *testing.T) {
	var all []*v1alpha1.Commit
	for i := range 120 {
		phase := v1alpha1.CommitHealthy
		if i%10 == 0 {
			phase = v1alpha1.CommitFailed
		}
		all = append(all, at(fmt.Sprintf("%s-%03d", []string{"a", "b", "c"}[i%3], i), time.Duration(i)*time.Hour, phase, .5, 1, 0))
	}
	for query, want := range map[string]struct {
		first       string
		rows, found int
		next        bool
	}{
		"":                          {"a-000", 50, 120, true},
		"page=3":                    {"b-100", 20, 120, false},
		"page=99":                   {"b-100", 20, 120, false},
		"page=-1":                   {"a-000", 50, 120, true},
		"page=x":                    {"a-000", 50, 120, true},
		"repository=b":              {"b-001", 40, 40, false},
		"phase=Failed":              {"a-000", 12, 12, false},
		"repository=c&phase=Failed": {"c-020", 4, 4, false},
		"q=CHANGE+a-003":            {"a-003", 1, 1, false},
		"q=b-0040123":               {"b-004", 1, 1, false},
		"q=nothing":                 {"", 0, 0, false},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		v := timeline(all, readCommitQuery(values), noon)
		first := ""
		if len(v.Rows) > 0 {
			first = v.Rows[0].Name
		}
		if first != want.first || len(v.Rows) != want.rows || v.Pages.Of != want.found || (v.Pages.Next != "") != want.next {
			t.Errorf("%q: first %q, %d rows of %d, next %q; want %+v", query, first, len(v.Rows), v.Pages.Of, v.Pages.Next, want)
		}
	}
	v := timeline(all, commitQuery{}, noon)
	var days []string
	for _, r := range v.Rows {
		if r.Day != "" {
			days = append(days, r.Day)
		}
	}
	if diff := cmp.Diff([]string{"Today", "Yesterday", "Friday, 20 November"}, days); diff != "" {
		t.Error(diff)
	}
	if v.Repositories[0].Count != 120 || v.Repositories[2].Count != 40 || !v.Repositories[0].On {
		t.Errorf("repositories: %+v", v.Repositories)
	}
}

func TestCommitHidesWhatMayNotBeSeen(t *testing.T) {
	c := at("shop-1", time.Hour, v1alpha1.CommitFailed, 0, 0, 1)
	s := &c.Status
	s.Changes = []v1alpha1.CommitChange{{Action: "update", Object: "ConfigMap/open/a", Fields: []v1alpha1.FieldChange{{Path: "data.x", Old: "1", New: "2"}}}, {Action: "update", Object: "ConfigMap/closed/a"}, {Action: "update", Object: "Secret/open/s", Fields: []v1alpha1.FieldChange{{Path: "data.x", Old: "geheim", New: "geheimer"}}}}
	s.Findings = []v1alpha1.Finding{{Message: "about the whole"}, {Object: "ConfigMap/closed/b", Message: "no"}}
	s.Unhealthy = []v1alpha1.ObjectHealth{{Object: "Pod/closed/p"}}
	s.Consequences = []v1alpha1.CommitConsequence{{Object: "Deployment/closed/d"}}
	none := func(string) string { return "" }
	v := commitOf(c, noon, func(o string) bool { return !strings.Contains(o, "closed") }, none, none)
	if len(v.Changes) != 2 || len(v.Findings) != 1 || len(v.Unhealthy) != 0 || len(v.Consequences) != 0 || v.Hidden != 4 {
		t.Errorf("%d changes, %d findings, %d unhealthy, %d consequences, %d hidden", len(v.Changes), len(v.Findings), len(v.Unhealthy), len(v.Consequences), v.Hidden)
	}
	if f := v.Changes[1].Fields[0]; f.Old != "(hidden)" || f.New != "(hidden)" {
		t.Errorf("the value of a Secret is shown: %+v", f)
	}
}

func TestYAMLHidesSecrets(t *testing.T) {
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "geheim", "keep": "this"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}, Data: map[string][]byte{"a": []byte("geheim"), "b": nil}, StringData: map[string]string{"c": "geheim"}}
	for _, kind := range []string{"Secret", ""} { // an object without its kind is no way around
		s.Kind = kind
		lines, err := yamlOf(s)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, l := range lines {
			b.WriteString(l.Indent + l.Key + l.Value + "\n")
		}
		text := b.String()
		for _, no := range []string{"geheim", "Z2VoZWlt", "managedFields", "kubectl\n"} {
			if strings.Contains(text, no) {
				t.Errorf("kind %q: %q is shown:\n%s", kind, no, text)
			}
		}
		for _, yes := range []string{"a: (hidden, 6 bytes)", "b: (hidden, 0 bytes)", "c: (hidden, 6 bytes)", "keep: this"} {
			if !strings.Contains(text, yes) {
				t.Errorf("kind %q: %q is missing:\n%s", kind, yes, text)
			}
		}
	}
	if s.StringData["c"] != "geheim" {
		t.Error("the object itself was changed")
	}
}

func TestColourLosesNothing(t *testing.T) {
	for _, line := range []string{"", "a: b", "  - name: x", "- - a", "key:", "    # a: comment", "'quoted: x'", "x: [1, 2]", "- {a: b}", "url: http://x:80", strings.Repeat(" ", 50)} {
		if l := colour(1, line); l.Indent+l.Key+l.Value != line {
			t.Errorf("%q became %q", line, l.Indent+l.Key+l.Value)
		}
	}
}

// declaredOf makes objects of which every seventh is missing.
func declaredOf(n int) []item {
	var out []item
	r := schema.ResourceFor[*corev1.ConfigMap]()
	for i := range n {
		it := item{ref: ref{r, schema.Key{Namespace: fmt.Sprintf("ns-%d", i%4), Name: fmt.Sprintf("c-%04d", i)}}, origin: &origin{Repository: []string{"a", "b"}[i*2/n], File: fmt.Sprintf("f%02d.yaml", i/10), Line: i}}
		if i%7 != 0 {
			it.object = &corev1.ConfigMap{}
		}
		it.health = health.Of(it.object)
		out = append(out, it)
	}
	return out
}

func TestObjects(t *testing.T) {
	all := declaredOf(700)
	none := func(*item) []square { return nil }
	for query, want := range map[string]struct{ found, rows, groups int }{
		"": {700, 50, 5}, "page=14": {700, 50, 5}, "page=15": {700, 50, 5}, "health=Missing": {100, 50, 35}, "namespace=ns-1": {175, 50, 20},
		"repository=b": {350, 50, 5}, "repository=b&file=f40.yaml": {10, 10, 1}, "q=C-0699": {1, 1, 1}, "by=namespace": {700, 50, 1}, "by=kind": {700, 50, 1},
		"kind=Pod": {0, 0, 0}, "health=Healthy&namespace=ns-0&q=c-00": {21, 21, 10}, "q=does+not+exist": {100, 50, 35},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		q := readObjectQuery(values)
		v, part := objects(all, q)
		groups := grouped(part, q, noon, none, func(string) string { return "" })
		rows, sum := 0, 0
		for _, g := range groups {
			rows += len(g.Rows)
			for _, c := range g.Counts {
				sum += c.N
			}
		}
		if v.Pages.Of != want.found || rows != want.rows || len(groups) != want.groups || sum != rows {
			t.Errorf("%q: %d of %d in %d groups (counted %d), want %+v", query, rows, v.Pages.Of, len(groups), sum, want)
		}
	}
}

// TestLayout draws random trees: no two cards overlap, every card but the roots
// has one line, and children are right of their parents.
func TestLayout(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 0
		var grow func(depth int) *card
		grow = func(depth int) *card {
			n++
			c := &card{ID: fmt.Sprint(n)}
			if depth < 5 {
				for range rnd.IntN(4) {
					c.kids = append(c.kids, grow(depth+1))
				}
			}
			return c
		}
		var roots []*card
		for range 1 + rnd.IntN(3) {
			roots = append(roots, grow(0))
		}
		g := layout(roots...)
		if len(g.Cards) != n || len(g.Edges) != n-len(roots) {
			t.Fatalf("%d cards and %d edges of a forest of %d with %d trees", len(g.Cards), len(g.Edges), n, len(roots))
		}
		for i, a := range g.Cards {
			if a.X+cardW > g.W || a.Y+cardH > g.H || a.X < 0 || a.Y < 0 {
				t.Fatalf("card %s at %d,%d is not on the plane of %dx%d", a.ID, a.X, a.Y, g.W, g.H)
			}
			for _, b := range g.Cards[i+1:] {
				if abs(a.X-b.X) < cardW && abs(a.Y-b.Y) < cardH {
					t.Fatalf("cards %s at %d,%d and %s at %d,%d overlap", a.ID, a.X, a.Y, b.ID, b.X, b.Y)
				}
			}
		}
	}
}

func TestFoldFiles(t *testing.T) {
	some := func(n int) []*card {
		var files []*card
		for i := range n {
			f := &card{ID: fmt.Sprint(i), State: stateOK}
			for range 10 {
				f.kids = append(f.kids, &card{State: stateOK})
			}
			files = append(files, f)
		}
		return files
	}
	got := foldFiles("shop", some(200))
	if n := leaves(got...); n > maxRows {
		t.Errorf("%d rows", n)
	}
	if got[len(got)-1].Title != "161 more files" {
		t.Errorf("the last card is %q", got[len(got)-1].Title)
	}
	if few := foldFiles("shop", some(3)); leaves(few...) != 30 {
		t.Errorf("a small tree was folded to %d rows", leaves(few...))
	}
	if mixed := foldFiles("shop", append([]*card{{State: stateBad, kids: []*card{{}, {}, {}}}}, some(30)...)); len(mixed[0].kids) != 3 {
		t.Error("the file that asks for attention was closed before those in which all is well")
	}
}

func TestHeadline(t *testing.T) {
	of := func(degraded, missing, progressing, healthy int) []count {
		return []count{{stateBad, "Degraded", degraded}, {stateWarn, "Missing", missing}, {stateBusy, "Progressing", progressing}, {stateOK, "Healthy", healthy}}
	}
	for _, tt := range []struct {
		counts      []count
		total, down int
		want        string
	}{
		{of(0, 0, 0, 9), 9, 0, "ok Everything is as Git says; 9 of 9 objects healthy"},
		{of(1, 1, 1, 6), 9, 0, "bad 1 object degraded; 6 of 9 objects healthy"},
		{of(0, 2, 1, 6), 9, 0, "warn 2 objects missing; 6 of 9 objects healthy"},
		{of(0, 0, 3, 6), 9, 0, "busy 3 objects progressing; 6 of 9 objects healthy"},
		{of(0, 0, 0, 9), 9, 1, "bad 1 node not ready; 9 of 9 objects healthy"},
		{nil, 0, 0, "idle Nothing declared yet; push a commit, and the cluster becomes what it says"},
	} {
		state, text, sub := headline(tt.counts, tt.total, tt.down)
		if got := state + " " + text + "; " + sub; got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestNodeState(t *testing.T) {
	node := func(cordoned bool, c ...corev1.NodeCondition) *corev1.Node {
		return &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: cordoned}, Status: corev1.NodeStatus{Conditions: c}}
	}
	pressure := corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: "True"}
	ready := func(s corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{Type: corev1.NodeReady, Status: s}
	}
	for _, tt := range []struct {
		n    *corev1.Node
		want string
	}{
		{node(false), "warn Unknown"}, {node(false, ready("True")), "ok Ready"}, {node(false, pressure, ready("True")), "warn Ready"}, {node(false, ready("True"), pressure), "warn Ready"},
		{node(true, ready("True")), "idle Ready, SchedulingDisabled"}, {node(false, ready("False")), "bad NotReady"}, {node(true, ready("Unknown")), "bad Unknown, SchedulingDisabled"},
	} {
		state, status := nodeState(tt.n)
		if got := state + " " + status; got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestWithoutPassword(t *testing.T) {
	for in, want := range map[string]string{
		"https://user:geheim@git.example.com/a.git": "https://user:xxxxx@git.example.com/a.git",
		"ssh://git@git.example.com/a.git":           "ssh://git@git.example.com/a.git",
		"builtin":                                   "builtin",
		"https://user:geh%eim@git.example.com/a":    "git.example.com/a",
	} {
		if got := withoutPassword(in); got != want {
			t.Errorf("withoutPassword(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestConditionViews(t *testing.T) {
	got := conditionViews([]condition{{Type: "Ready", Status: "True"}, {Type: "MemoryPressure", Status: "False"}, {Type: "DiskPressure", Status: "True"}, {Type: "Available", Status: "False"}, {Type: "Synced", Status: "Unknown"}}, noon)
	var text []string
	for _, c := range got {
		text = append(text, c.Type+" "+c.State)
	}
	if diff := cmp.Diff("DiskPressure bad, Available bad, Synced warn, Ready ok, MemoryPressure ok", strings.Join(text, ", ")); diff != "" {
		t.Error(diff)
	}
}
