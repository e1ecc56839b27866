package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"

func config(v string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, namespace: shop}\ndata: {v: \"" + v + "\"}\n"
}

func secretOf(v string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: shop}\nstringData: {v: " + v + "}\n"
}

// viewer is a reader that may not see Secrets.
type viewer struct{ client.Reader }

func (v viewer) List(ctx context.Context, r *schema.Resource, o client.ListOptions) (client.List, error) {
	if r.Kind == "Secret" {
		return client.List{}, apierrors.NewForbidden(r.GroupResource(), "", nil)
	}
	return v.Reader.List(ctx, r, o)
}

// applied is a cluster with the directory applied.
func applied(t *testing.T, dir string) *client.Fake {
	t.Helper()
	f := client.NewFake()
	p, err := PlanDir(t.Context(), dir, f, Options{})
	if err != nil || len(p.Findings) > 0 {
		t.Fatal(err, p.Findings)
	}
	for _, i := range p.Inventories {
		if i.Object != nil {
			i.Object.Spec.Commit, i.Object.Spec.Author = strings.Repeat("ab", 20), "Ada <ada@example.com>"
		}
	}
	if _, err := apply.Do(t.Context(), f, p); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPlanDir(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"ns.yaml": namespace, "old.yaml": strings.Replace(namespace, "shop", "old", 1), "conf.yaml": config("1"), "key.yaml": secretOf("one"), ".git/config": "no"})
	f := applied(t, dir)
	if p, err := PlanDir(t.Context(), dir, viewer{f}, Options{}); err != nil || len(p.Ops) != 0 || p.Unchanged != 4 {
		t.Errorf("a plan of what is applied: %v, %v", p.Ops, err)
	}
	write(t, dir, map[string]string{"conf.yaml": config("2"), "key.yaml": secretOf("two")})
	if err := os.Remove(filepath.Join(dir, "old.yaml")); err != nil {
		t.Fatal(err)
	}
	p, err := PlanDir(t.Context(), dir, viewer{f}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := WritePlan(&b, p, Options{}); err != nil {
		t.Fatal(err)
	}
	want := `~ ConfigMap/shop/conf  conf.yaml:1
      data.v: "1" -> "2"
~ Secret/shop/key      key.yaml:1
      changed (hidden)
- Namespace/old        was old.yaml:1

! Namespace/old: everything in the namespace is deleted, whether Git declares it or not

0 to create, 2 to change, 1 to delete, 1 unchanged.
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	b.Reset()
	if err := WritePlan(&b, p, Options{JSON: true}); err != nil {
		t.Fatal(err)
	}
	var got struct{ Create, Update, Delete int }
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got.Update != 2 || got.Delete != 1 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.yaml": namespace, "b/c.yaml": namespace, "bad.yaml": "a: [", "README.md": "x"})
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	findings, err := CheckDir(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, f := range findings {
		rules = append(rules, f.File+" "+f.Rule)
	}
	if diff := cmp.Diff([]string{"b/c.yaml Duplicate", "bad.yaml Syntax", "link.yaml Symlink"}, rules); diff != "" {
		t.Error(diff)
	}
	if _, err := CheckDir(t.Context(), filepath.Join(dir, "nowhere"), Options{}); err == nil || !strings.Contains(err.Error(), "no such directory") {
		t.Error(err)
	}
}

func TestWhy(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"ns.yaml": namespace, "apps/conf.yaml": "\n\n" + config("1")})
	f := applied(t, dir)
	var b strings.Builder
	if err := Why(t.Context(), f, Options{}, "", "cm/conf", &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ConfigMap/shop/conf", "apps/conf.yaml:3", "abababa", "by Ada"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %s", want, b.String())
		}
	}
	b.Reset()
	if err := Why(t.Context(), f, Options{}, "", "deploy/none", &b); err == nil || !strings.Contains(err.Error(), "neither declared in Git nor in the cluster") {
		t.Error(b.String(), err)
	}
	if err := Why(t.Context(), f, Options{}, "", "nonsense/x", &b); err == nil {
		t.Error("no error for an unknown kind")
	}
}

func TestStatusAndHistory(t *testing.T) {
	now := time.Now()
	at := func(d time.Duration) *metav1.MicroTime { m := metav1.NewMicroTime(now.Add(d)); return &m }
	commit := func(sha, message string, s v1alpha1.CommitStatus) *v1alpha1.Commit {
		return &v1alpha1.Commit{TypeMeta: metav1.TypeMeta{APIVersion: "writ.dev/v1alpha1", Kind: "Commit"}, ObjectMeta: metav1.ObjectMeta{Name: "cluster-" + sha[:12]},
			Spec: v1alpha1.CommitSpec{Repository: "cluster", SHA: sha, Author: "Ada <a@example.com>", Message: message}, Status: s}
	}
	good, bad := strings.Repeat("1", 40), strings.Repeat("2", 40)
	f := client.NewFake(
		&v1alpha1.Repository{TypeMeta: metav1.TypeMeta{APIVersion: "writ.dev/v1alpha1", Kind: "Repository"}, ObjectMeta: metav1.ObjectMeta{Name: "cluster"},
			Spec: v1alpha1.RepositorySpec{URL: "https://git.example.com/a.git"}, Status: v1alpha1.RepositoryStatus{Head: bad, Applied: good,
				Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Refused", Message: "the commit 2222222 is refused"}}}},
		commit(good, "first\n\nlong", v1alpha1.CommitStatus{Phase: v1alpha1.CommitApplied, Reason: "Progressing", SeenTime: at(-time.Minute), AppliedTime: at(-time.Minute + 30*time.Millisecond),
			Objects: 3, Ready: 2, Created: 3, Unhealthy: []v1alpha1.ObjectHealth{{Object: "Deployment/shop/web", Health: "Degraded", Message: "cannot make pods"}}}),
		commit(bad, "second", v1alpha1.CommitStatus{Phase: v1alpha1.CommitFailed, Reason: "Refused", SeenTime: at(-time.Second), FailedTime: at(-time.Second),
			Findings: []v1alpha1.Finding{{File: "a.yaml", Line: 3, Column: 7, Rule: "UnknownField", Field: "spec.x", Message: "there is no such field"}}}),
	)
	var b strings.Builder
	if err := Status(t.Context(), f, Options{}, &b); !errors.Is(err, ErrUnwell) {
		t.Fatal(err)
	}
	want := `repository  cluster  https://git.example.com/a.git, branch main
            the commit 2222222 is refused
head        2222222  second  (Ada)
            Failed (Refused) 1s ago
              a.yaml:3:7: spec.x: there is no such field
applied     1111111  first  (Ada)
            Applied after 30ms, 59s ago, 2 of 3 objects healthy; 3 created, 0 updated, 0 deleted
              Degraded     Deployment/shop/web  cannot make pods
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	// A push that was refused at the door is not the head, and is told of.
	b.Reset()
	f.Put(commit(strings.Repeat("3", 40), "third", v1alpha1.CommitStatus{Phase: v1alpha1.CommitFailed, Reason: "Refused", SeenTime: at(0), FailedTime: at(0)}))
	if err := Status(t.Context(), f, Options{}, &b); !errors.Is(err, ErrUnwell) || !strings.HasSuffix(b.String(), "last push   3333333  third  (Ada)\n            Failed (Refused) 0s ago\n") {
		t.Error(b.String(), err)
	}
	statusOfServers(t, f)
	b.Reset()
	if err := History(t.Context(), f, Options{}, &b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[2], "2222222") || !strings.Contains(lines[3], "+3 ~0 -0") || !strings.Contains(lines[3], "30ms") {
		t.Error(b.String())
	}
	for _, o := range []Options{{JSON: true}} {
		b.Reset()
		if err := Status(t.Context(), f, o, &b); !errors.Is(err, ErrUnwell) || !json.Valid([]byte(b.String())) {
			t.Error(err, b.String())
		}
	}
}

var _ plan.Live = liveObjects{}

// statusOfServers: several servers are shown, one is not, and those that nobody may
// know keep nobody from the commit.
func statusOfServers(t *testing.T, c client.Reader) {
	t.Helper()
	all := []Server{{"s1", "leader", true}, {"server-2", "follower", false}, {"", "joining", false}}
	for n, want := range map[int]string{0: "", 1: "", 2: "servers     s1        leader    ready\n            server-2  follower  not ready\n",
		3: "servers     s1             leader    ready\n            server-2       follower  not ready\n            (not started)  joining   not ready\n"} {
		for _, failed := range []error{nil, errors.New("forbidden")} {
			o := Options{Servers: func(context.Context) ([]Server, error) { return all[:n], failed }}
			if failed != nil {
				want = ""
			}
			var b strings.Builder
			if err := Status(t.Context(), c, o, &b); !errors.Is(err, ErrUnwell) { // its commit is refused
				t.Fatal(err)
			}
			_, got, _ := strings.Cut(b.String(), "servers ")
			if got != strings.TrimPrefix(want, "servers ") {
				t.Errorf("%d servers, %v:\n%s", n, failed, b.String())
			}
		}
	}
	var b strings.Builder
	if err := Status(t.Context(), c, Options{JSON: true, Servers: func(context.Context) ([]Server, error) { return all, nil }}, &b); !errors.Is(err, ErrUnwell) || !strings.Contains(b.String(), `"role": "leader"`) {
		t.Error(err, b.String())
	}
}

// What keeps the children apart is told where something of it is missing.
func TestStatusOfSandbox(t *testing.T) {
	repo := &v1alpha1.Repository{TypeMeta: metav1.TypeMeta{APIVersion: "writ.dev/v1alpha1", Kind: "Repository"}, ObjectMeta: metav1.ObjectMeta{Name: "cluster"},
		Spec: v1alpha1.RepositorySpec{URL: "builtin"}}
	for _, tt := range []struct {
		lacks []string
		want  string
	}{
		{nil, ""},
		{[]string{"landlock: the kernel has none", "user: the server may not give it another"},
			"sandbox     less than there could be: landlock: the kernel has none; user: the server may not give it another\n"},
	} {
		report.Sandboxed(&repo.Status, tt.lacks, time.Now())
		f := client.NewFake(repo.DeepCopy())
		var text, js strings.Builder
		if err := errors.Join(Status(t.Context(), f, Options{}, &text), Status(t.Context(), f, Options{JSON: true}, &js)); err != nil {
			t.Fatal(err)
		}
		if _, got, _ := strings.Cut(text.String(), "seen yet\n"); got != tt.want {
			t.Errorf("%q", got)
		}
		if !strings.Contains(js.String(), `"type": "Sandboxed"`) || strings.Contains(js.String(), "the kernel has none") != (tt.want != "") {
			t.Error(js.String())
		}
	}
	if len(repo.Status.Conditions) != 1 || report.Sandboxed(&repo.Status, []string{"landlock: the kernel has none", "user: the server may not give it another"}, time.Now()) {
		t.Errorf("it changes though nothing does: %v", repo.Status.Conditions)
	}
}
