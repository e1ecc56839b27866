package reconciler

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/btree"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/source"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// BenchmarkCommit is what the built-in remote and the reconciler do about a
// push, by a repository on the disk: the check before the branch moves, and
// then the way from the branch to the transaction, which is that of a fake.
func BenchmarkCommit(b *testing.B) {
	for _, c := range []struct{ files, folders, changed int }{{5000, 40, 10}, {50_000, 500, 1}} {
		b.Run(fmt.Sprintf("%dOf%d", c.changed, c.files), func(b *testing.B) { benchmarkCommit(b, c.files, c.folders, c.changed) })
	}
}

func benchmarkCommit(b *testing.B, files, folders, changed int) {
	g := newGitRepository(b)
	ctx := b.Context()
	own := source.New(source.Config{Builtin: g.dir})
	defer own.Close()
	backend := &steady{Fake: client.NewFake(), lists: map[*schema.Resource]*btree.BTreeG[schema.Object]{}}
	r := New(Config{Client: backend, Source: Git(own, "."), Spec: v1alpha1.RepositorySpec{URL: "builtin", Branch: "main"}})
	if err := r.declareRepository(ctx); err != nil {
		b.Fatal(err)
	}
	text := map[string]string{}
	fill := func(from, n, round int) {
		for i := from; i < from+n; i++ {
			text[fmt.Sprintf("d%03d/o%d.yaml", i%files%folders, i%files)] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: o%d, namespace: default}\ndata: {round: \"%d\"}\n", i%files, round)
		}
	}
	enter := func(sha string) time.Duration {
		g.move(b, sha)
		began := used()
		c, err := own.Fetch(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := r.do(ctx, c, nil); err != nil || r.commit == nil || r.commit.Spec.SHA != sha {
			b.Fatal(err, r.commit)
		}
		r.events()
		return used() - began
	}
	fill(0, files, 0)
	enter(g.commit(b, "", text))
	var checks, applies []time.Duration
	for round := 1; b.Loop(); round++ {
		b.StopTimer()
		clear(text)
		fill(round*991, changed, round)
		sha := g.commit(b, r.commit.Spec.SHA, text)
		b.StartTimer()
		began := used()
		checkPush(b, r, own, g.dir, sha)
		checks = append(checks, used()-began)
		applies = append(applies, enter(sha))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(middle(checks).Microseconds())/1000, "check-cpu-ms")
	b.ReportMetric(float64(middle(applies).Microseconds())/1000, "apply-cpu-ms")
}

func checkPush(b testing.TB, r *Reconciler, own *source.Source, dir, sha string) {
	pushed := own.Beside(dir)
	defer pushed.Close()
	c, err := pushed.Commit(sha)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := r.Receive(context.Background(), Git(pushed, "."), c); err != nil {
		b.Fatal(err)
	}
}

// used is the time of the processors that this process has used: others use
// them too.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func middle(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// gitRepository is a bare repository that is written by stock git.
type gitRepository struct {
	dir string
	n   int
}

func newGitRepository(t testing.TB) *gitRepository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	g := &gitRepository{dir: filepath.Join(t.TempDir(), "cluster.git")}
	if out, err := exec.Command("git", "init", "-q", "--bare", "-b", "main", g.dir).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	return g
}

// commit stores a commit that changes files of its parent; those without text
// are removed.
func (g *gitRepository) commit(t testing.TB, parent string, files map[string]string) string {
	t.Helper()
	g.n++
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/incoming\ncommitter Ada <ada@example.com> %d +0000\ndata 4\nwork\n", 1_700_000_000+g.n)
	if parent == "" {
		in.WriteString("deleteall\n")
	} else {
		fmt.Fprintf(&in, "from %s\n", parent)
	}
	for name, text := range files {
		if text == "" {
			fmt.Fprintf(&in, "D %s\n", name)
			continue
		}
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", name, len(text), text)
	}
	cmd := exec.Command("git", "-C", g.dir, "fast-import", "--quiet", "--force")
	cmd.Stdin = &in
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	return g.git(t, "rev-parse", "refs/heads/incoming")
}

func (g *gitRepository) move(t testing.TB, sha string) {
	t.Helper()
	g.git(t, "update-ref", "refs/heads/main", sha)
}

func (g *gitRepository) git(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", append([]string{"-C", g.dir}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	return strings.TrimSpace(string(out))
}

// steady is a fake whose lists are kept sorted, as the store keeps them.
type steady struct {
	*client.Fake
	mu    sync.Mutex
	lists map[*schema.Resource]*btree.BTreeG[schema.Object]
}

func (s *steady) Cache() client.Cache { return steadyCache{s.Fake.Cache(), s} }

type steadyCache struct {
	client.Cache
	s *steady
}

// List implements client.Cache.
func (c steadyCache) List(r *schema.Resource, namespace string) []schema.Object {
	if namespace != "" {
		return c.Cache.List(r, namespace)
	}
	t := c.list(r)
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	out := make([]schema.Object, 0, t.Len())
	t.Ascend(func(o schema.Object) bool { out = append(out, o); return true })
	return out
}

func (c steadyCache) list(r *schema.Resource) *btree.BTreeG[schema.Object] {
	c.s.mu.Lock()
	t := c.s.lists[r]
	c.s.mu.Unlock()
	if t != nil {
		return t
	}
	t = btree.NewG(32, func(a, b schema.Object) bool { return schema.KeyOf(a).String() < schema.KeyOf(b).String() })
	_ = c.Cache.Subscribe(context.Background(), r, func(ev client.Event) {
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		if ev.Object == nil {
			return
		}
		if ev.Type == client.Deleted {
			t.Delete(ev.Object)
			return
		}
		t.ReplaceOrInsert(ev.Object)
	})
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.lists[r] = t
	return t
}
