package notify

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	pending    = v1alpha1.CommitPending
	applied    = v1alpha1.CommitApplied
	healthy    = v1alpha1.CommitHealthy
	failed     = v1alpha1.CommitFailed
	superseded = v1alpha1.CommitSuperseded
)

var epoch = time.Date(1999, 5, 1, 12, 0, 0, 0, time.UTC) // before the time of synctest

// at is the time n seconds after the epoch.
func at(n int) *metav1.MicroTime {
	t := metav1.NewMicroTime(epoch.Add(time.Duration(n) * time.Second))
	return &t
}

const sha = "0123456789abcdef0123456789abcdef01234567"

// commit is the nth commit of the repository shop.
func commit(n int, p v1alpha1.CommitPhase) *v1alpha1.Commit {
	id := string(rune('a'+n%6)) + string(rune('0'+n/6)) + sha[2:]
	return &v1alpha1.Commit{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Commit"},
		ObjectMeta: metav1.ObjectMeta{Name: report.CommitName("shop", id)},
		Spec: v1alpha1.CommitSpec{Repository: "shop", SHA: id, Branch: "main", Author: "Ann <ann@example.org>",
			Message: "Raise the replicas\n\nMore load.", Time: metav1.NewTime(epoch.Add(time.Duration(n)*time.Minute - time.Second))},
		Status: v1alpha1.CommitStatus{Phase: p, SeenTime: at(60 * n)},
	}
}

func TestDecide(t *testing.T) {
	told := func(p v1alpha1.CommitPhase) Mark { return MarkOf(commit(1, p)) }
	back := commit(1, failed)
	back.Status.RolledBackTo = sha
	anew := commit(1, healthy)
	anew.Status.SeenTime = at(999)
	for name, c := range map[string]struct {
		kind   string
		phases []v1alpha1.CommitPhase
		told   Mark
		commit *v1alpha1.Commit
		want   bool
	}{
		"pending is not told by itself":      {commit: commit(1, pending)},
		"pending, where asked for":           {phases: []v1alpha1.CommitPhase{pending}, commit: commit(1, pending), want: true},
		"no phase is pending":                {phases: []v1alpha1.CommitPhase{pending}, commit: commit(1, ""), want: true},
		"applied":                            {commit: commit(1, applied), want: true},
		"applied again":                      {told: told(applied), commit: commit(1, applied)},
		"healthy":                            {told: told(applied), commit: commit(1, healthy), want: true},
		"failed":                             {told: told(applied), commit: commit(1, failed), want: true},
		"rolled back":                        {told: told(failed), commit: back, want: true},
		"rolled back again":                  {told: MarkOf(back), commit: back},
		"superseded":                         {told: told(applied), commit: commit(1, superseded), want: true},
		"not asked for":                      {phases: []v1alpha1.CommitPhase{failed}, commit: commit(1, healthy)},
		"came in anew":                       {told: told(healthy), commit: anew, want: true},
		"a chat is owed nothing":             {phases: []v1alpha1.CommitPhase{applied}, told: told(applied), commit: commit(1, superseded)},
		"a forge is owed the end":            {kind: "github", phases: []v1alpha1.CommitPhase{applied}, told: told(applied), commit: commit(1, superseded), want: true},
		"a forge is owed the end once":       {kind: "gitlab", phases: []v1alpha1.CommitPhase{applied}, told: told(superseded), commit: commit(1, superseded)},
		"a forge that knows nothing of it":   {kind: "gitea", phases: []v1alpha1.CommitPhase{applied}, commit: commit(1, healthy)},
		"a forge that was told another end":  {kind: "gitea", phases: []v1alpha1.CommitPhase{failed}, told: told(failed), commit: commit(1, healthy)},
		"a forge of which the end is wanted": {kind: "gitea", commit: commit(1, failed), want: true},
	} {
		n := v1alpha1.Notification{Name: "n", Type: c.kind, Phases: c.phases}
		if n.Type == "" {
			n.Type = "slack"
		}
		got := Decide(c.commit, []v1alpha1.Notification{n}, map[string]Mark{"n": c.told})
		if (len(got) == 1) != c.want {
			t.Errorf("%s: %v, want a message: %v", name, got, c.want)
		}
		if len(got) == 1 && (got[0].Mark != MarkOf(c.commit) || got[0].Notification != "n") {
			t.Errorf("%s: %+v", name, got[0])
		}
	}
}

// Whatever way a commit goes and whichever phases are asked for, nothing is
// told twice, and a forge does not stay with a state that is not the end of a
// commit that has ended.
func TestDecideProperty(t *testing.T) {
	all := []v1alpha1.CommitPhase{pending, applied, healthy, failed, superseded}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := v1alpha1.Notification{Name: "n", Type: []string{"github", "gitlab", "gitea", "slack", "webhook"}[r.IntN(5)]}
		for range r.IntN(4) {
			n.Phases = append(n.Phases, all[r.IntN(5)])
		}
		told := map[string]Mark{}
		c := commit(1, pending)
		for range 1 + r.IntN(6) {
			c = c.DeepCopy()
			c.Status.Phase = all[r.IntN(5)]
			before := told["n"]
			for _, m := range Decide(c, []v1alpha1.Notification{n}, told) {
				if m.Mark == before {
					t.Fatalf("seed %d: %v twice", seed, m.Mark)
				}
				told["n"] = m.Mark
			}
			if again := Decide(c, []v1alpha1.Notification{n}, told); len(again) > 0 && told["n"] == MarkOf(c) {
				t.Fatalf("seed %d: again %v", seed, again)
			}
		}
		if m := told["n"]; isForge(n.Type) && final(MarkOf(c).Phase) && m.Phase != "" && !final(m.Phase) {
			t.Fatalf("seed %d: %s hangs at %v, commit is %v", seed, n.Type, m, c.Status.Phase)
		}
	}
}

func TestMark(t *testing.T) {
	for _, p := range []v1alpha1.CommitPhase{pending, applied, healthy, failed, superseded} {
		for _, back := range []string{"", sha} {
			c := commit(3, p)
			c.Status.RolledBackTo = back
			if got := ParseMark(MarkOf(c).String()); got != MarkOf(c) {
				t.Errorf("%v is read as %v", MarkOf(c), got)
			}
		}
	}
	for _, s := range []string{"", "Healthy", "Healthy@", "Healthy@x", "@"} {
		if got := ParseMark(s); got != (Mark{}) {
			t.Errorf("%q is read as %v", s, got)
		}
	}
}

func FuzzParseMark(f *testing.F) {
	f.Add("Failed+RolledBack@1763790000000000")
	f.Fuzz(func(t *testing.T, s string) {
		if m := ParseMark(s); m != (Mark{}) && ParseMark(m.String()) != m {
			t.Errorf("%q: %v", s, m)
		}
	})
}

func TestBegin(t *testing.T) {
	for name, c := range map[string]struct {
		all  []*v1alpha1.Commit
		want int64
	}{
		"no commit":          {nil, 0},
		"the newest":         {[]*v1alpha1.Commit{commit(1, healthy), commit(2, failed)}, seen(commit(2, failed))},
		"what has not ended": {[]*v1alpha1.Commit{commit(1, healthy), commit(3, failed), commit(2, applied)}, seen(commit(2, applied))},
		"the newest, still":  {[]*v1alpha1.Commit{commit(2, pending), commit(1, healthy)}, seen(commit(2, pending))},
	} {
		if got := begin(c.all); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestAnnotation(t *testing.T) {
	if got := annotation("chat"); got != "notified.writ.dev/chat" {
		t.Error(got)
	}
	seen := map[string]bool{}
	for _, name := range []string{"", "a b", "a/b", strings.Repeat("x", 64), "Ärger"} {
		key := annotation(name)
		if !strings.HasPrefix(key, annotationPrefix+"sha256-") || len(key) > len(annotationPrefix)+63 || seen[key] {
			t.Errorf("%q: %q", name, key)
		}
		seen[key] = true
	}
	r := &v1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		annotation("chat"): "1", annotation("gone"): "1", "other": "x"}}}
	if got := left(r, []v1alpha1.Notification{{Name: "chat"}}); len(got) != 1 || got[0] != annotation("gone") {
		t.Errorf("left: %v", got)
	}
}
