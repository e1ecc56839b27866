//go:build image

package image

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// repository is one that the guest follows, at stock git's HTTP server, with
// bundles beside it.
type repository struct {
	t     *testing.T
	dir   string // of a clone
	url   string // as the guest reaches it
	files string // directory of what is served below /images/
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	where, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skipf("git is not installed: %v", err)
	}
	root := t.TempDir()
	r := &repository{t: t, dir: filepath.Join(root, "clone"), files: filepath.Join(root, "images")}
	r.git("", "init", "-q", "--bare", "-b", "main", filepath.Join(root, "git", "cluster.git"))
	r.git("", "clone", "-q", filepath.Join(root, "git", "cluster.git"), r.dir)
	if err := os.Mkdir(r.files, 0o755); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/git/", &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(where)), "git-http-backend"), Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Join(root, "git"), "GIT_HTTP_EXPORT_ALL=1"}, Stderr: io.Discard})
	mux.Handle("/images/", http.StripPrefix("/images/", http.FileServer(http.Dir(r.files))))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	r.url = fmt.Sprintf("http://%s:%d", host, l.Addr().(*net.TCPAddr).Port)
	return r
}

func (r *repository) git(dir string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=Jane", "GIT_AUTHOR_EMAIL=jane@example.com", "GIT_COMMITTER_NAME=Jane", "GIT_COMMITTER_EMAIL=jane@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// write puts a file into the clone.
func (r *repository) write(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// publish commits everything and returns the name of its Commit.
func (r *repository) publish(message string) string {
	r.t.Helper()
	r.git(r.dir, "add", "-A")
	r.git(r.dir, "commit", "-qm", message)
	return r.push()
}

func (r *repository) push() string {
	r.t.Helper()
	r.git(r.dir, "push", "-q", "origin", "HEAD:main")
	return "cluster-" + r.git(r.dir, "rev-parse", "HEAD")[:12]
}

// offer serves the bundle of a version, and returns the NodeImage that names it.
func (r *repository) offer(v version) string {
	r.t.Helper()
	name := filepath.Base(v.path(".bundle"))
	if err := os.Link(v.path(".bundle"), filepath.Join(r.files, name)); err != nil {
		r.t.Fatal(err)
	}
	digest, size := v.digest(r.t)
	return fmt.Sprintf(`apiVersion: writ.dev/v1alpha1
kind: NodeImage
metadata: {name: writ-%[1]s}
spec:
  version: %[1]s
  digest: %[2]s
  size: %[3]d
  source: {url: "%[4]s/images/%[5]s"}
`, v.Version, digest, size, r.url, name)
}

// pool is a NodePool of all nodes.
func pool(v version) string {
	return fmt.Sprintf(`apiVersion: writ.dev/v1alpha1
kind: NodePool
metadata: {name: all}
spec:
  selector: {}
  image: writ-%s
  update: {settle: 5s}
`, v.Version)
}

// readers lets everybody read: the guest hands its keys to nobody.
const readers = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: readers}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: readers}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:unauthenticated"}
`

// commit waits until a commit is in a phase.
func (g *guest) commit(limit time.Duration, name string, phase v1alpha1.CommitPhase) {
	g.t.Helper()
	g.eventually(limit, fmt.Sprintf("%s is %s", name, phase), func() error {
		var c v1alpha1.Commit
		if err := g.get("/apis/writ.dev/v1alpha1/commits/"+name, &c); err != nil {
			return err
		}
		if c.Status.Phase != phase {
			return fmt.Errorf("it is %s: %s", c.Status.Phase, c.Status.Message)
		}
		return nil
	})
}

// follow prints what the node and its pool say until they satisfy done.
func (g *guest) follow(limit time.Duration, what string, done func(image, phase, failed string, p *v1alpha1.NodePool) bool) {
	g.t.Helper()
	last := ""
	g.eventually(limit, what, func() error {
		n, err := g.node("one")
		if err != nil {
			return err
		}
		var p v1alpha1.NodePool
		if err := g.get("/apis/writ.dev/v1alpha1/nodepools/all", &p); err != nil {
			return err
		}
		a := n.Annotations
		image, phase, failed := a[v1alpha1.ImageAnnotation], a[v1alpha1.UpdatePhaseAnnotation], a[v1alpha1.UpdateFailedAnnotation]
		now := fmt.Sprintf("runs %s, %s: %s | pool: %s", image, phase, a[v1alpha1.UpdateMessageAnnotation], p.Status.Message)
		if now != last {
			last = now
			g.step("    %s", now)
		}
		if !ready(n) {
			return errNotReady
		}
		if !done(image, phase, failed, &p) {
			return errors.New(now)
		}
		return nil
	})
}
