//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// storyActs: what kubectl does to things that Git does not declare, with the
// break-glass credential: streams into pods, and every way to write.
func storyActs(t *testing.T, c *cluster, _ string) {
	admin := "--kubeconfig=" + filepath.Join(c.data, "admin.kubeconfig")
	k := func(args ...string) string {
		c.t.Helper()
		return c.kubectl(append([]string{admin, "-n", "scratch"}, args...)...)
	}
	k("create", "namespace", "scratch")
	k("create", "deployment", "web", "--image=writ.local/demo:v1", "--replicas=2", "--port=8080")
	k("rollout", "status", "deploy/web", "--timeout=60s")

	contains(t, "kubectl exec", k("exec", "deploy/web", "--", "/writ", "version"), "writ")
	out, err := c.run(c.bin("kubectl"), admin, "-n", "scratch", "exec", "deploy/web", "--", "/writ", "no-such-command")
	if err == nil || !strings.Contains(out, "command terminated with exit code 1") {
		t.Errorf("kubectl exec of a command that fails: %v\n%s", err, out)
	}
	pod := k("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}")
	k("debug", pod, "--image=writ.local/demo:v2", "--target=demo", "--container=look", "--", "/writ", "version")
	c.eventually(30*time.Second, "the ephemeral container has ended", func() error {
		if got := k("get", "pod", pod, "-o", "jsonpath={.status.ephemeralContainerStatuses[0].state.terminated.exitCode}"); got != "0" {
			return fmt.Errorf("exit code %q", got)
		}
		return nil
	})
	storyForward(t, c, admin, pod)

	k("scale", "deploy/web", "--replicas=3")
	k("set", "image", "deploy/web", "demo=writ.local/demo:v2")
	k("rollout", "status", "deploy/web", "--timeout=60s")
	k("rollout", "undo", "deploy/web")
	k("rollout", "status", "deploy/web", "--timeout=60s")
	k("autoscale", "deploy/web", "--min=1", "--max=5", "--cpu=80%")
	k("expose", "deploy/web", "--port=80", "--target-port=8080")
	k("label", "deploy/web", "tier=front")
	k("annotate", "deploy/web", "note=by hand")
	k("patch", "deploy/web", "-p", `{"spec":{"minReadySeconds":1}}`)
	manifest := filepath.Join(c.dir, "scratch.yaml")
	write(t, manifest, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: scratch}\ndata: {colour: red}\n")
	contains(t, "kubectl apply", k("apply", "-f", manifest), "created")
	write(t, manifest, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: scratch}\ndata: {colour: blue}\n")
	if out, err := c.run(c.bin("kubectl"), admin, "diff", "-f", manifest); err == nil || !strings.Contains(out, "+  colour: blue") {
		t.Errorf("kubectl diff: %v\n%s", err, out)
	}
	contains(t, "kubectl apply --server-side", k("apply", "--server-side", "-f", manifest), "serverside-applied")
	contains(t, "kubectl auth whoami", k("auth", "whoami"), "writ:break-glass")
	contains(t, "kubectl auth can-i --list", k("auth", "can-i", "--list"), "*.*")
	c.eventually(time.Minute, "kubectl top knows the node and the pods", func() error {
		for _, what := range []string{"node", "pods"} {
			if out, err := c.run(c.bin("kubectl"), admin, "-n", "scratch", "top", what); err != nil || !strings.Contains(out, "Mi") {
				return fmt.Errorf("top %s: %w\n%s", what, err, out)
			}
		}
		return nil
	})
	k("drain", nodeName(c), "--ignore-daemonsets", "--delete-emptydir-data", "--dry-run=server", "--force")
	k("delete", "namespace", "scratch", "--timeout=60s")
}

// storyForward asks a pod through kubectl port-forward.
func storyForward(t *testing.T, c *cluster, admin, pod string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := c.inside(ctx, c.bin("kubectl"), admin, "-n", "scratch", "port-forward", pod, "18080:8080")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	c.eventually(20*time.Second, "the forwarded port answers", func() error {
		out, err := c.run("curl", "-sSf", "--max-time", "5", "http://127.0.0.1:18080/whoami")
		if err != nil || !strings.Contains(out, pod) {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

func nodeName(c *cluster) string {
	return c.kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
