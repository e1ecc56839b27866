//go:build e2e

package e2e

import (
	"bytes"
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
	k("label", "namespace", "scratch", "pod-security.kubernetes.io/enforce=privileged") // debug adds SYS_PTRACE
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
	storyAttach(t, c, admin)

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
	storyEdit(t, c, admin)
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

// storyAttach listens to a pod that waits for a Service, gives it the Service, and
// hears what it says then; the end of the container is the end of the stream.
func storyAttach(t *testing.T, c *cluster, admin string) {
	k := func(args ...string) string {
		return c.kubectl(append([]string{admin, "-n", "scratch"}, args...)...)
	}
	k("run", "guest", "--image=writ.local/demo:v1", "--restart=Never", "--command", "--", "/writ", "demo", "greet", "--to=http://late:8080")
	k("wait", "pod/guest", "--for=jsonpath={.status.phase}=Running", "--timeout=30s")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	attach := c.inside(ctx, c.bin("kubectl"), admin, "-n", "scratch", "attach", "guest")
	attach.Stdout, attach.Stderr = &out, &out
	if err := attach.Start(); err != nil {
		t.Fatal(err)
	}
	k("expose", "deploy/web", "--name=late", "--port=8080")
	if err := attach.Wait(); err != nil {
		t.Errorf("kubectl attach: %v\n%s", err, &out)
	}
	contains(t, "kubectl attach", out.String(), "signed the guestbook at http://late:8080")
	k("wait", "pod/guest", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=30s")
	if out, err := c.run(c.bin("kubectl"), admin, "-n", "scratch", "attach", "guest"); err == nil || !strings.Contains(out, "cannot attach a container in a completed pod") {
		t.Errorf("kubectl attach to a pod that has ended: %v\n%s", err, out)
	}
}

// storyEdit edits with a script for an editor: a good change, none, one that the
// server refuses, and one of a subresource.
func storyEdit(t *testing.T, c *cluster, admin string) {
	edit := func(script string, args ...string) (string, error) {
		editor := filepath.Join(c.dir, "editor")
		write(t, editor, "#!/bin/sh\nexec sed -i '"+script+"' \"$1\"\n")
		if err := os.Chmod(editor, 0o700); err != nil {
			t.Fatal(err)
		}
		all := append([]string{"KUBE_EDITOR=" + editor, c.bin("kubectl"), admin, "-n", "scratch", "edit"}, args...)
		return c.run("env", all...)
	}
	out, err := edit("s/colour: blue/colour: green/", "configmap/settings")
	if err != nil || !strings.Contains(out, "configmap/settings edited") {
		t.Errorf("kubectl edit: %v\n%s", err, out)
	}
	if got := c.kubectl(admin, "-n", "scratch", "get", "configmap", "settings", "-o", "jsonpath={.data.colour}"); got != "green" {
		t.Errorf("the colour is %q after kubectl edit", got)
	}
	if out, err := edit("s/nothing/something/", "configmap/settings"); err != nil || !strings.Contains(out, "Edit cancelled, no changes made.") {
		t.Errorf("kubectl edit that changes nothing: %v\n%s", err, out)
	}
	// The editor is opened again, on a file that says why; that it changes nothing
	// then ends it.
	out, err = edit("s/  replicas: [0-9][0-9]*/  replicas: -1/", "deploy/web")
	_, rest, _ := strings.Cut(out, `A copy of your changes has been stored to "`)
	kept, _, _ := strings.Cut(rest, `"`)
	reason, _ := os.ReadFile(kept) //nolint:errcheck // none is no reason
	_ = os.Remove(kept)
	if err == nil || !strings.Contains(out, `deployments.apps "web" is invalid`) || !strings.Contains(string(reason), "must be greater than or equal to 0") {
		t.Errorf("kubectl edit of what is refused: %v\n%s\n%s", err, out, reason)
	}
	if out, err := edit("s/availableReplicas: [0-9][0-9]*/availableReplicas: 1/", "deploy/web", "--subresource=status"); err != nil || !strings.Contains(out, "edited") {
		t.Errorf("kubectl edit --subresource=status: %v\n%s", err, out)
	}
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
