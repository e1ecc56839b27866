//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cluster is one writ cluster in a network namespace of its own.
type cluster struct {
	t     *testing.T
	netns string
	dir   string // of the test
	data  string // --data-dir
	root  string // of the repository under test
	procs map[string]*exec.Cmd
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("the end-to-end story needs root: containers, network namespaces")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "writ-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, netns: filepath.Base(dir), dir: dir, data: filepath.Join(dir, "data"), root: root, procs: map[string]*exec.Cmd{}}
	c.host("ip", "netns", "add", c.netns)
	t.Cleanup(c.cleanup)
	c.must("ip", "link", "set", "lo", "up")
	return c
}

// cleanup stops what the test started and removes what it made.
func (c *cluster) cleanup() {
	if c.t.Failed() {
		for name := range c.procs {
			c.t.Logf("---- last lines of %s\n%s", name, tail(c.log(name), 60))
		}
	}
	for name := range c.procs {
		c.stop(name, syscall.SIGTERM)
	}
	if out, err := c.run(c.bin("writ"), "down", "--data-dir", c.data); err != nil {
		c.t.Errorf("writ down: %v\n%s", err, out)
	}
	c.host("ip", "netns", "del", c.netns)
	if !c.t.Failed() {
		os.RemoveAll(c.dir)
	} else {
		c.t.Logf("kept %s", c.dir)
	}
}

func (c *cluster) bin(name string) string { return filepath.Join(c.root, "bin", name) }
func (c *cluster) log(name string) string { return filepath.Join(c.dir, name+".log") }

// host runs a command outside of the namespace.
func (c *cluster) host(name string, args ...string) {
	c.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		c.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// inside prepares a command in the namespace. nsenter, not `ip netns exec`: the
// latter hides /sys/fs/cgroup.
func (c *cluster) inside(ctx context.Context, name string, args ...string) *exec.Cmd {
	all := append([]string{"--net=/run/netns/" + c.netns, "--", name}, args...)
	cmd := exec.CommandContext(ctx, "nsenter", all...)
	cmd.Env = append(environment(), "KUBECONFIG="+filepath.Join(c.data, "viewer.kubeconfig"),
		"GIT_AUTHOR_NAME=Jane", "GIT_AUTHOR_EMAIL=jane@example.com", "GIT_COMMITTER_NAME=Jane", "GIT_COMMITTER_EMAIL=jane@example.com",
		"HOME="+c.dir, "GIT_TERMINAL_PROMPT=0")
	return cmd
}

// environment is that of the test without what would overrule the cluster's
// own CA in git.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GIT_SSL_") })
}

// run runs a command in the namespace and returns all it printed.
func (c *cluster) run(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := c.inside(ctx, name, args...).CombinedOutput()
	return string(out), err
}

func (c *cluster) must(name string, args ...string) string {
	c.t.Helper()
	out, err := c.run(name, args...)
	if err != nil {
		c.t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return out
}

func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	return c.must(c.bin("kubectl"), args...)
}

// get decodes `kubectl get ... -o json`.
func (c *cluster) get(into any, args ...string) error {
	out, err := c.run(c.bin("kubectl"), append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return fmt.Errorf("kubectl get %v: %w: %s", args, err, out)
	}
	return json.Unmarshal([]byte(out), into)
}

// start runs a long-lived writ process in the namespace.
func (c *cluster) start(name string, args ...string) {
	c.t.Helper()
	f, err := os.OpenFile(c.log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	cmd := c.inside(context.Background(), c.bin("writ"), args...)
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.procs[name] = cmd
}

// stop signals a process and waits for its end.
func (c *cluster) stop(name string, sig syscall.Signal) {
	c.t.Helper()
	cmd := c.procs[name]
	if cmd == nil {
		return
	}
	delete(c.procs, name)
	_ = cmd.Process.Signal(sig)
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Kill()
		c.t.Errorf("%s did not end within 20 s of %v", name, sig)
	}
}

// up starts the whole cluster and waits until its node is ready.
func (c *cluster) up() {
	c.t.Helper()
	c.start("up", "up", "--data-dir", c.data)
	c.ready()
}

func (c *cluster) ready() {
	c.t.Helper()
	c.eventually(time.Minute, "node is ready", func() error {
		out, err := c.run(c.bin("kubectl"), "wait", "--for=condition=Ready", "node", "--all", "--timeout=1s")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// eventually tries until it works; it is how the story waits.
func (c *cluster) eventually(limit time.Duration, what string, try func() error) time.Duration {
	c.t.Helper()
	began := time.Now()
	for {
		err := try()
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			c.t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// healthy waits until the commit at HEAD of a clone is healthy.
func (c *cluster) healthy(repo string) time.Duration {
	c.t.Helper()
	return c.phase(repo, "Healthy")
}

func (c *cluster) phase(repo string, phases ...string) time.Duration {
	c.t.Helper()
	sha := strings.TrimSpace(c.must("git", "-C", repo, "rev-parse", "HEAD"))
	return c.eventually(2*time.Minute, "commit "+sha[:12]+" is "+strings.Join(phases, " or "), func() error {
		var commit struct {
			Status struct{ Phase, Message string }
		}
		if err := c.get(&commit, "commits.writ.dev", "cluster-"+sha[:12]); err != nil {
			return err
		}
		for _, p := range phases {
			if commit.Status.Phase == p {
				return nil
			}
		}
		return fmt.Errorf("phase %s: %s", commit.Status.Phase, commit.Status.Message)
	})
}

// clone clones the cluster's own repository with a pusher's credentials.
func (c *cluster) clone(name string) string {
	c.t.Helper()
	dir := filepath.Join(c.dir, name)
	c.must("git", "clone", "-q", "--config", "include.path="+filepath.Join(c.data, "pusher.gitconfig"),
		"https://127.0.0.1:6443/git/cluster.git", dir)
	return dir
}

// commit commits everything in a clone.
func (c *cluster) commit(repo, message string) {
	c.t.Helper()
	c.must("git", "-C", repo, "add", "-A")
	c.must("git", "-C", repo, "commit", "-qm", message)
}

func (c *cluster) push(repo string) string {
	c.t.Helper()
	return c.must("git", "-C", repo, "push", "origin", "HEAD:main")
}

func (c *cluster) write(path, content string) {
	c.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// edit replaces text in a file, which must be there.
func (c *cluster) edit(path, old, replacement string) {
	c.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatal(err)
	}
	if !bytes.Contains(b, []byte(old)) {
		c.t.Fatalf("%s does not contain %q", path, old)
	}
	c.write(path, strings.Replace(string(b), old, replacement, 1))
}

// refused runs a command that must fail and returns what it printed.
func (c *cluster) refused(name string, args ...string) string {
	c.t.Helper()
	out, err := c.run(name, args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		c.t.Fatalf("%s %v was not refused: %v\n%s", filepath.Base(name), args, err, out)
	}
	return out
}

func contains(t *testing.T, what, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not say %q:\n%s", what, w, text)
		}
	}
}

func tail(file string, lines int) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
