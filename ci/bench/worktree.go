package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// worktree is somebody's clone of a repository, with a watch of what becomes
// of its commits.
type worktree struct {
	e       *env
	dir     string
	folders int // that the manifests are spread over
	phases  <-chan sighting
}

// sighting is a Commit object as it was when a watch told of it.
type sighting struct {
	at     time.Time
	commit v1alpha1.Commit
}

// checkout clones the repository at a URL with stock git.
func (e *env) checkout(ctx context.Context, url string, folders int) (*worktree, error) {
	w := &worktree{e: e, dir: filepath.Join(e.dir, "repo"), folders: folders}
	err := e.git(ctx, "", "clone", "-q", "--config", "gc.auto=0", "--config", "include.path="+filepath.Join(e.data(), "pusher.gitconfig"), url, w.dir)
	if err != nil {
		return nil, err
	}
	return w, w.write("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: bench}\n")
}

// builtin clones the built-in remote of the server and watches the commits.
func (e *env) builtin(ctx context.Context, folders int) (*worktree, error) {
	w, err := e.checkout(ctx, "https://"+address+"/git/cluster.git", folders)
	if err != nil {
		return nil, err
	}
	return w, w.follow(ctx)
}

// follow watches the Commit objects until ctx is done, by the clock here.
func (w *worktree) follow(ctx context.Context) error {
	cfg, err := w.e.config()
	if err != nil {
		return err
	}
	c, err := dynamic.NewForConfig(rest.AddUserAgent(cfg, "bench-commits"))
	if err != nil {
		return err
	}
	events, err := c.Resource(v1alpha1.GroupVersion.WithResource("commits")).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch commits: %w", err)
	}
	phases := make(chan sighting, 4096)
	w.phases = phases
	go func() {
		defer close(phases)
		for ev := range events.ResultChan() {
			o, ok := ev.Object.(runtime.Unstructured)
			if !ok {
				return
			}
			s := sighting{at: time.Now()}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.UnstructuredContent(), &s.commit) != nil {
				return
			}
			phases <- s
		}
	}()
	return nil
}

var (
	errNoWord  = errors.New("the cluster said nothing of the commit for two minutes")
	errNoWatch = errors.New("the watch of commits ended")
)

// await returns the first sighting of a commit that is as wanted.
func (w *worktree) await(ctx context.Context, sha string, wanted func(*v1alpha1.Commit) bool) (sighting, error) {
	limit := time.After(2 * time.Minute)
	for {
		select {
		case <-ctx.Done():
			return sighting{}, ctx.Err()
		case <-limit:
			return sighting{}, errNoWord
		case s, ok := <-w.phases:
			if !ok {
				return s, errNoWatch
			}
			if s.commit.Spec.SHA == sha && wanted(&s.commit) {
				return s, nil
			}
		}
	}
}

func isApplied(c *v1alpha1.Commit) bool { return c.Status.AppliedTime != nil }

// write writes a file of the worktree.
func (w *worktree) write(name, text string) error {
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// place is the file of the i-th manifest.
func (w *worktree) place(i int) string { return fmt.Sprintf("d%03d/o%d.yaml", i%w.folders, i) }

// fill writes a file for each of some numbered objects.
func (w *worktree) fill(from, n, round int, text func(i, round int) string) error {
	for i := from; i < from+n; i++ {
		if err := w.write(w.place(i), text(i, round)); err != nil {
			return err
		}
	}
	return nil
}

// pushed is a push that has ended.
type pushed struct {
	sha   string
	took  time.Duration
	ended time.Time
}

// push commits everything and pushes it. The commit is in the answer also when
// the push is refused.
func (w *worktree) push(ctx context.Context, message string) (p pushed, err error) {
	if err := w.e.git(ctx, w.dir, "add", "-A"); err != nil {
		return p, err
	}
	if err := w.e.git(ctx, w.dir, "commit", "-qm", message); err != nil {
		return p, err
	}
	out, err := exec.CommandContext(ctx, "git", "-C", w.dir, "rev-parse", "HEAD").Output()
	if err != nil {
		return p, err
	}
	p.sha = strings.TrimSpace(string(out))
	began := time.Now()
	err = w.e.git(ctx, w.dir, "push", "-q", "origin", "HEAD:main")
	p.ended = time.Now()
	p.took = p.ended.Sub(began)
	return p, err
}

// apply pushes everything and waits until it is in the cluster: until a client
// that watches has been told so. The time counts from the end of the push, and
// is 0 when the word came first.
func (w *worktree) apply(ctx context.Context, message string) (took time.Duration, p pushed, err error) {
	if p, err = w.push(ctx, message); err != nil {
		return 0, p, err
	}
	s, err := w.await(ctx, p.sha, isApplied)
	return max(0, s.at.Sub(p.ended)), p, err
}

// bare makes an empty repository outside of the cluster.
func (e *env) bare(ctx context.Context) (dir string, err error) {
	dir = filepath.Join(e.dir, "remote", "cluster.git")
	return dir, e.git(ctx, "", "init", "-q", "--bare", "-b", "main", dir)
}

func (e *env) git(ctx context.Context, repo string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = repo
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GIT_SSL_") })
	cmd.Env = append(env, "HOME="+e.dir, "GIT_AUTHOR_NAME=b", "GIT_AUTHOR_EMAIL=b@example.com", "GIT_COMMITTER_NAME=b", "GIT_COMMITTER_EMAIL=b@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return nil
}
