package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a repository made by the git program, and a cluster in memory. The
// lines of its archive's comment are done one after the other:
//
//	commit NAME         commit the files NAME/..., and tag the commit NAME
//	remove NAME FILE... commit that files are gone
//	apply NAME          the cluster takes the commit in
//	refuse NAME         the cluster refuses it
//	back NAME TO        it failed, and the cluster went back
//	patch KIND/KEY JSON somebody changes a live object
//	writ ARGS           what the command prints, in the clone
//	away ARGS           what it prints without a clone
type script struct {
	*testing.T
	dir     string
	files   map[string]string
	sha     map[string]string
	cluster *client.Fake
	clock   int
	out     bytes.Buffer
}

func TestScripts(t *testing.T) {
	names, _ := filepath.Glob("testdata/*.txtar")
	if len(names) == 0 {
		t.Fatal("no testdata")
	}
	for i, name := range names {
		names[i], _ = filepath.Abs(name)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir()) // no clone
			s := &script{T: t, dir: filepath.Join(t.TempDir(), "clone"), files: map[string]string{}, sha: map[string]string{}}
			want := ""
			for _, f := range ar.Files {
				if f.Name == "want" {
					want = string(f.Data)
				} else {
					s.files[f.Name] = string(f.Data)
				}
			}
			s.start()
			for line := range strings.Lines(string(ar.Comment)) {
				if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
					s.do(line)
				}
			}
			got := strings.ReplaceAll(s.out.String(), s.dir, "CLONE")
			if *update {
				ar.Files = slices.DeleteFunc(ar.Files, func(f txtar.File) bool { return f.Name == "want" })
				ar.Files = append(ar.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(name, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func (s *script) start() {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		s.Fatal(err)
	}
	s.git("init", "-q", "-b", "main")
	s.cluster = client.NewFake(&v1alpha1.Repository{TypeMeta: metav1.TypeMeta{APIVersion: "writ.dev/v1alpha1", Kind: "Repository"},
		ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: v1alpha1.RepositorySpec{URL: "https://git.example.com/a.git"}})
}

// git runs the git program with a clock of its own, so that commits have the
// same SHA each time.
func (s *script) git(args ...string) string {
	s.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = s.dir
	at := time.Date(2026, 5, 1, 10, s.clock, 0, 0, time.UTC).Format(time.RFC3339)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_DATE="+at, "GIT_COMMITTER_DATE="+at,
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.Fatalf("git %v: %v\n%s", args, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func (s *script) do(line string) {
	s.Helper()
	args := strings.Fields(line)
	for i, a := range args {
		if sha := s.sha[strings.TrimPrefix(a, "@")]; sha != "" && a[0] == '@' {
			args[i] = sha[:8] // as people who have no clone name a commit
		}
	}
	switch verb := args[0]; verb {
	case "commit", "remove":
		s.commit(args[1], args[2:])
	case "apply":
		s.apply(args[1])
	case "refuse":
		s.record(args[1], v1alpha1.CommitStatus{Phase: v1alpha1.CommitFailed, Reason: "Refused", Message: "1 finding; the cluster is as it was before",
			Findings: []v1alpha1.Finding{{File: "web.yaml", Line: 3, Column: 1, Rule: "UnknownField", Field: "spec.x", Message: "there is no such field"}}})
	case "back":
		s.back(args[1], args[2])
	case "patch":
		kind, key, _ := strings.Cut(args[1], "/")
		_, err := s.cluster.Patch(s.Context(), resource(kind), schema.ParseKey(key), types.MergePatchType, []byte(strings.Join(args[2:], " ")), client.WriteOptions{FieldManager: "somebody"})
		s.check(err)
	case "writ", "away":
		fmt.Fprintf(&s.out, "$ %s\n", line)
		o := Options{Clone: s.dir}
		if verb == "away" {
			o.Clone = ""
		}
		err := s.run(o, args[1:])
		switch {
		case errors.Is(err, ErrUsage):
			fmt.Fprintf(&s.out, "[2] %v\n", err)
		case err != nil:
			fmt.Fprintf(&s.out, "[1] %v\n", err)
		}
		s.out.WriteString("\n")
	default:
		s.Fatalf("%q: no such verb", line)
	}
}

func (s *script) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *script) commit(name string, removed []string) {
	s.clock++
	for file, content := range s.files {
		if rel, ok := strings.CutPrefix(file, name+"/"); ok {
			s.check(os.MkdirAll(filepath.Dir(filepath.Join(s.dir, rel)), 0o755))
			s.check(os.WriteFile(filepath.Join(s.dir, rel), []byte(content), 0o644))
		}
	}
	for _, file := range removed {
		s.check(os.Remove(filepath.Join(s.dir, file)))
	}
	s.git("add", "-A")
	s.git("commit", "-q", "-m", "do "+name+"\n\nbecause")
	s.git("tag", name)
	s.sha[name] = s.git("rev-parse", "HEAD")
}

// apply has the cluster take a commit in, as the reconciler does.
func (s *script) apply(name string) {
	s.Helper()
	at, err := openClone(s.dir)
	s.check(err)
	defer at.close()
	c, err := at.resolve(name)
	s.check(err)
	repo, err := readRepository(s.Context(), s.cluster, "cluster")
	s.check(err)
	t, err := at.tree(c.SHA, folderOf(repo))
	s.check(err)
	p, err := planTree(s.Context(), t, c, s.cluster, Options{})
	s.check(err)
	if len(p.Findings) > 0 {
		s.Fatalf("apply %s: %s", name, report.FindingText(p.Findings[0]))
	}
	_, err = apply.Do(s.Context(), s.cluster, p)
	s.check(err)
	obj := &v1alpha1.Commit{}
	report.Applied(obj, p, report.Times{})
	status := obj.Status
	status.Phase, status.Reason = v1alpha1.CommitHealthy, "Healthy"
	status.Ready = status.Objects
	s.record(name, status)
	s.repository(func(r *v1alpha1.RepositoryStatus) { r.Head, r.Applied, r.Healthy = c.SHA, c.SHA, c.SHA })
}

func (s *script) repository(change func(*v1alpha1.RepositoryStatus)) {
	r, err := client.Get[*v1alpha1.Repository](s.Context(), s.cluster, schema.Key{Name: "cluster"})
	s.check(err)
	r = r.DeepCopy()
	change(&r.Status)
	s.cluster.Put(r)
}

// record writes a Commit object whose phases took known times.
func (s *script) record(name string, status v1alpha1.CommitStatus) {
	c, err := s.read(name)
	s.check(err)
	seen := time.Now().Add(-time.Hour).Add(time.Duration(s.minute(name)) * 5 * time.Minute)
	at := func(d time.Duration) *metav1.MicroTime { m := metav1.NewMicroTime(seen.Add(d)); return &m }
	status.SeenTime = at(0)
	switch status.Reason {
	case "Refused":
		status.FailedTime = at(3 * time.Millisecond)
	case report.ReasonLate:
		status.RenderedTime, status.PlannedTime, status.AppliedTime = at(4*time.Millisecond), at(6*time.Millisecond), at(9*time.Millisecond)
		status.FailedTime = at(time.Minute)
	default:
		status.RenderedTime, status.PlannedTime, status.AppliedTime = at(4*time.Millisecond), at(6*time.Millisecond), at(9*time.Millisecond)
		status.HealthyTime = at(2*time.Second + 9*time.Millisecond)
	}
	s.cluster.Put(&v1alpha1.Commit{TypeMeta: metav1.TypeMeta{APIVersion: "writ.dev/v1alpha1", Kind: "Commit"},
		ObjectMeta: metav1.ObjectMeta{Name: report.CommitName("cluster", c.sha)},
		Spec:       v1alpha1.CommitSpec{Repository: "cluster", SHA: c.sha, Author: "Ann <ann@example.com>", Message: c.message}, Status: status})
}

func (s *script) back(name, to string) {
	s.record(name, v1alpha1.CommitStatus{Phase: v1alpha1.CommitFailed, Reason: report.ReasonLate, Message: "1 object not healthy after 10m0s", Objects: 2, Ready: 1, Created: 1,
		Unhealthy:    []v1alpha1.ObjectHealth{{Object: "ConfigMap/shop/b", Health: "Missing", Message: "does not exist"}},
		Signature:    &v1alpha1.CommitSignature{State: "Verified", Key: "SHA256:abc", Signer: "Ann"},
		RolledBackTo: s.sha[to]})
	s.repository(func(r *v1alpha1.RepositoryStatus) { r.Head, r.Applied = s.sha[name], s.sha[to] })
}

type known struct{ sha, message string }

func (s *script) read(name string) (known, error) {
	return known{s.sha[name], s.git("log", "-1", "--format=%B", name)}, nil
}

// minute is when a commit was made, in minutes after the first.
func (s *script) minute(name string) int {
	at, err := time.Parse(time.RFC3339, s.git("log", "-1", "--format=%cI", name))
	s.check(err)
	return at.Minute()
}

// run is what the command does.
func (s *script) run(o Options, args []string) error {
	ctx, w := s.Context(), &s.out
	rest := args[1:]
	if i := slices.Index(rest, "-o"); i >= 0 {
		o.JSON, o.Markdown = rest[i+1] == "json", rest[i+1] == "markdown"
		rest = slices.Delete(slices.Clone(rest), i, i+2)
	}
	switch args[0] {
	case "why":
		return Why(ctx, s.cluster, o, "", rest[0], w)
	case "status":
		return Status(ctx, s.cluster, o, w)
	case "history":
		return History(ctx, s.cluster, o, w)
	case "plan":
		return s.plan(ctx, o, rest, w)
	case "diff":
		return s.diff(ctx, o, rest, w)
	case "revert":
		r, err := PlanRevert(ctx, s.cluster, o, rest[0])
		if err != nil {
			return err
		}
		return WriteRevert(w, r, o)
	case "bisect":
		c := client.Reader(s.cluster)
		if len(rest) > 2 && rest[2] == "--offline" {
			c = nil
		}
		b, err := Bisect(ctx, c, o, rest[0], rest[1], func(st Step) { WriteStep(w, st, o) })
		if err != nil {
			return err
		}
		return WriteBisection(w, b, o)
	case "suspend", "resume":
		p, err := PlanSuspension(ctx, s.cluster, o, rest[0], args[0] == "suspend")
		if err != nil {
			return err
		}
		return WriteSuspension(w, p, o)
	}
	s.Fatalf("no command %q", args[0])
	return nil
}

func (s *script) plan(ctx context.Context, o Options, rest []string, w io.Writer) error {
	p, err := PlanDir(ctx, s.dir, s.cluster, o)
	if len(rest) > 0 {
		p, err = PlanBase(ctx, s.dir, rest[0], o)
	}
	if err != nil {
		return err
	}
	return WritePlan(w, p, o)
}

func (s *script) diff(ctx context.Context, o Options, rest []string, w io.Writer) error {
	if len(rest) == 0 {
		d, err := DiffLive(ctx, s.cluster, o)
		if err != nil {
			return err
		}
		return WriteDrift(w, d, o)
	}
	ch, err := DiffCommits(ctx, s.cluster, o, rest[0], append(rest, "")[1])
	if err != nil {
		return err
	}
	return WriteChanges(w, ch, o)
}

var _ render.Tree = overlay{}
