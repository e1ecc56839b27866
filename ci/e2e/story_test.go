//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// TestStory is the way of a commit as a user walks it. The chapters build on
// each other, so the first failure ends it.
func TestStory(t *testing.T) {
	c := newCluster(t)
	c.up()
	repo := c.clone("repo")
	c.healthy(repo) // the seed
	for _, chapter := range []struct {
		name string
		tell func(*testing.T, *cluster, string)
	}{
		{"push", storyPush},
		{"kubectl reads", storyKubectl},
		{"people do not write", storyReadOnly},
		{"kubectl acts", storyActs},
		{"roll out, revert, prune", storyRollout},
		{"four mistakes", storyMistakes},
		{"kill in the middle of a commit", storyKillCommit},
		{"kill while pods start", storyKillPods},
		{"kill a container", storyKillContainer},
		{"node agent away", storyAgentAway},
	} {
		ok := t.Run(chapter.name, func(sub *testing.T) {
			c.t = sub
			chapter.tell(sub, c, repo)
		})
		if c.t = t; !ok {
			return
		}
	}
}

// storyPush: a commit in YAML and CUE enters in one transaction and runs.
func storyPush(t *testing.T, c *cluster, repo string) {
	c.host("cp", "-r", filepath.Join(c.root, "examples/shop"), filepath.Join(repo, "shop"))
	c.commit(repo, "Open the shop")
	contains(t, "git push", c.push(repo), "remote:")
	t.Logf("push to healthy: %v", c.healthy(repo))

	oneTransaction(t, c)
	c.kubectl("wait", "-n", "shop", "--for=condition=Complete", "job/opening", "--timeout=60s")
	c.kubectl("rollout", "status", "-n", "shop", "daemonset/till", "--timeout=30s")

	clusterIP := c.kubectl("get", "-n", "shop", "service/web", "-o", "jsonpath={.spec.clusterIP}")
	nodeIP := c.kubectl("get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	for _, url := range []string{"http://" + clusterIP, "http://" + nodeIP + ":30081"} {
		if got := replicasBehind(c, url); got != 3 {
			t.Errorf("%s is answered by %d replicas, want 3", url, got)
		}
	}
	got := c.must("curl", "-sSf", "--max-time", "5", "http://"+clusterIP+"/lookup?host=web.shop.svc.cluster.local")
	if strings.TrimSpace(got) != clusterIP {
		t.Errorf("a pod resolves web.shop.svc.cluster.local to %q, want %s", got, clusterIP)
	}
	contains(t, "the page", c.must("curl", "-sSf", "--max-time", "5", "http://"+clusterIP+"/"), "Everything must be declared")
}

// oneTransaction checks that all that the newest commit wrote shares one etcd
// revision: its Inventory objects, which nobody changes later.
func oneTransaction(t *testing.T, c *cluster) {
	var list struct {
		Items []struct {
			Metadata struct{ Name, ResourceVersion string }
			Spec     struct{ File, Commit string }
		}
	}
	if err := c.get(&list, "inventories.writ.dev"); err != nil {
		t.Fatal(err)
	}
	revisions := map[string]map[uint64]bool{}
	for _, i := range list.Items {
		rv, err := strconv.ParseUint(i.Metadata.ResourceVersion, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if revisions[i.Spec.Commit] == nil {
			revisions[i.Spec.Commit] = map[uint64]bool{}
		}
		revisions[i.Spec.Commit][rv>>20] = true
	}
	if len(revisions) < 2 {
		t.Errorf("inventories of %d commits, want the seed's and the shop's", len(revisions))
	}
	for sha, r := range revisions {
		if len(r) != 1 {
			t.Errorf("commit %s entered at %d revisions", sha, len(r))
		}
	}
}

// replicasBehind counts who answers at a URL.
func replicasBehind(c *cluster, url string) int {
	c.t.Helper()
	who := map[string]bool{}
	for range 60 {
		who[c.must("curl", "-sSf", "--max-time", "5", url+"/whoami")] = true
	}
	return len(who)
}

func storyKubectl(t *testing.T, c *cluster, _ string) {
	pod := c.kubectl("get", "pods", "-n", "shop", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}")
	for _, k := range []struct {
		args string
		want []string
	}{
		{"get pods -n shop", []string{"NAME", "READY", "STATUS", "RESTARTS", "AGE", "1/1", "Running", "Completed"}},
		{"get pods -n shop -o wide", []string{"NODE", "10.244."}},
		{"get deploy,svc,ds,job -A", []string{"deployment.apps/web", "service/web", "daemonset.apps/till", "job.batch/opening", "3/3"}},
		{"get deploy web -n shop -o yaml", []string{"apiVersion: apps/v1", "replicas: 3", "readyReplicas: 3"}},
		{"get deploy web -n shop -o json", []string{`"kind": "Deployment"`}},
		{"get nodes -o wide", []string{"Ready", "containerd://"}},
		{"get all -n shop", []string{"replicaset.apps/web-"}},
		{"describe deploy web -n shop", []string{"RollingUpdateStrategy:", "ScalingReplicaSet"}},
		{"describe pod " + pod + " -n shop", []string{"Successfully assigned", "Started", "Readiness:"}},
		{"logs -n shop " + pod, []string{"guestbook is served"}},
		{"logs -n shop job/opening", []string{"signed the guestbook"}},
		{"get events -n shop", []string{"Scheduled", "Started"}},
		{"events -n shop", []string{"Scheduled"}},
		{"explain deployment.spec.replicas", []string{"KIND:", "replicas", "integer", "Number of desired pods"}},
		{"explain commit.status", []string{"phase"}},
		{"api-resources", []string{"deployments", "deploy", "commits", "writ.dev/v1alpha1"}},
		{"api-versions", []string{"apps/v1"}},
		{"wait -n shop --for=condition=Available deploy/web --timeout=5s", []string{"condition met"}},
		{"rollout status -n shop deploy/web --timeout=5s", []string{"successfully rolled out"}},
		{"rollout history -n shop deploy/web", []string{"REVISION", "1"}},
		{"get commits.writ.dev", []string{"Healthy", "Open the shop"}},
		{"auth can-i get pods -n shop", []string{"yes"}},
		{"version", []string{"Server Version: v1.36"}},
	} {
		contains(t, "kubectl "+k.args, c.kubectl(strings.Fields(k.args)...), k.want...)
	}
	contains(t, "kubectl auth can-i delete", c.refused(c.bin("kubectl"), "auth", "can-i", "delete", "pods", "-n", "shop"), "no")

	// Streams: they end by their timeout, having shown something.
	watch, _ := c.run("timeout", "3", c.bin("kubectl"), "get", "pods", "-n", "shop", "-w")
	contains(t, "kubectl get -w", watch, "Running")
	follow, _ := c.run("timeout", "3", c.bin("kubectl"), "logs", "-f", "-n", "shop", pod)
	contains(t, "kubectl logs -f", follow, "guestbook is served")
}

// storyReadOnly: 403, and the message names the file, the line and the commit.
// Whoever breaks the glass is told the same, and Git takes it back.
func storyReadOnly(t *testing.T, c *cluster, repo string) {
	sha := strings.TrimSpace(c.must("git", "-C", repo, "rev-parse", "HEAD"))
	admin := "--kubeconfig=" + filepath.Join(c.data, "admin.kubeconfig")
	for _, k := range [][]string{
		{admin, "scale", "deploy/web", "-n", "shop", "--replicas=2"},
		{admin, "set", "image", "deploy/web", "-n", "shop", "web=writ.local/demo:v2"},
		{admin, "delete", "deploy/web", "-n", "shop"},
	} {
		contains(t, "kubectl (break-glass) "+strings.Join(k[1:], " "), c.kubectl(k...), "Warning: ", "shop/app.cue:", sha[:12])
		c.eventually(10*time.Second, "Git has taken it back", func() error {
			var d appsv1.Deployment
			if err := c.get(&d, "deploy/web", "-n", "shop"); err != nil {
				return err
			}
			if got := d.Spec.Template.Spec.Containers[0].Image; *d.Spec.Replicas != 3 || got != "writ.local/demo:v1" || d.DeletionTimestamp != nil {
				return fmt.Errorf("%d replicas of %s, deleted at %v", *d.Spec.Replicas, got, d.DeletionTimestamp)
			}
			return nil
		})
	}
	c.kubectl("rollout", "status", "deploy/web", "-n", "shop", "--timeout=60s")
	for _, k := range [][]string{
		{"delete", "deploy/web", "-n", "shop"},
		{"scale", "deploy/web", "-n", "shop", "--replicas=9"},
		{"set", "image", "deploy/web", "-n", "shop", "web=x"},
	} {
		contains(t, "kubectl (viewer) "+strings.Join(k, " "), c.refused(c.bin("kubectl"), k...), "orbidden", "edit shop/app.cue:", sha[:12])
	}
	contains(t, "kubectl get secrets as viewer", c.refused(c.bin("kubectl"), "get", "secrets", "-n", "shop"), "Forbidden")
	contains(t, "writ why", c.must(c.bin("writ"), "why", "deployment/web", "-n", "shop", "--data-dir", c.data), "shop/app.cue:", "Jane", "Open the shop")
}

// storyRollout: a rolling update never has fewer ready endpoints than allowed;
// revert takes it back; a removed file prunes its objects.
func storyRollout(t *testing.T, c *cluster, repo string) {
	web := filepath.Join(repo, "shop/web.cue")
	c.edit(web, "writ.local/demo:v1", "writ.local/demo:v2")
	c.edit(web, "replicas: 3", "replicas: 5")
	c.commit(repo, "Version 2, five of them")
	c.push(repo)
	fewest := fewestEndpoints(c, func() bool { return rolledOut(c, "v2", 5) })
	if fewest < 3 {
		t.Errorf("the rollout went down to %d ready endpoints; 3 were there before, and 4 of 5 are demanded", fewest)
	}
	c.healthy(repo)

	c.must("git", "-C", repo, "revert", "--no-edit", "HEAD")
	c.push(repo)
	if fewest := fewestEndpoints(c, func() bool { return rolledOut(c, "v1", 3) }); fewest < 3 {
		t.Errorf("the revert went down to %d ready endpoints, want at least 3", fewest)
	}
	c.healthy(repo)

	c.must("git", "-C", repo, "rm", "-q", "shop/jobs/opening.yaml")
	c.commit(repo, "Close the till")
	contains(t, "push of a removal", c.push(repo), "delete")
	c.healthy(repo)
	c.eventually(20*time.Second, "till and opening are pruned", func() error {
		if out, _ := c.run(c.bin("kubectl"), "get", "ds,job,pods", "-n", "shop", "-o", "name"); strings.Contains(out, "till") || strings.Contains(out, "opening") {
			return fmt.Errorf("still there:\n%s", out)
		}
		return nil
	})
}

func rolledOut(c *cluster, version string, replicas int) bool {
	out, err := c.run(c.bin("kubectl"), "get", "deploy/web", "-n", "shop", "-o",
		"jsonpath={.spec.template.spec.containers[0].image} {.status.updatedReplicas} {.status.readyReplicas} {.status.replicas}")
	return err == nil && out == fmt.Sprintf("writ.local/demo:%s %d %d %d", version, replicas, replicas, replicas)
}

// fewestEndpoints watches the Service's ready endpoints until done says so.
func fewestEndpoints(c *cluster, done func() bool) int {
	c.t.Helper()
	fewest := 1 << 20
	c.eventually(90*time.Second, "rollout", func() error {
		out := c.kubectl("get", "endpointslices", "-n", "shop", "-l", "kubernetes.io/service-name=web", "-o", "jsonpath={.items[*].endpoints[*].conditions.ready}")
		ready := strings.Count(out, "true")
		fewest = min(fewest, ready)
		if !done() {
			return fmt.Errorf("%d endpoints are ready", ready)
		}
		return nil
	})
	return fewest
}

const mistakes = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: bad
  namespace: shop
spec:
  replica: 3
  template:
    metadata:
      labels:
        app: bad
    spec:
      containers:
        - name: bad
          image: writ.local/demo:v1
          stdin: "yes"
          ports:
            - containerPort: 80800
`

// storyMistakes: refused whole with four findings; the fix applies at once.
func storyMistakes(t *testing.T, c *cluster, repo string) {
	file := filepath.Join(repo, "shop/bad.yaml")
	c.write(file, mistakes)
	before := c.kubectl("get", "deploy,svc,cm", "-A", "-o", "name")
	c.commit(repo, "Four mistakes")
	sha := strings.TrimSpace(c.must("git", "-C", repo, "rev-parse", "HEAD"))
	want := []string{"shop/bad.yaml:7:3", "shop/bad.yaml:16:18", "shop/bad.yaml:18:30", "selector"}

	contains(t, "refused push", c.refused("git", "-C", repo, "push", "origin", "HEAD:main"), append(want, "remote:", "4 findings")...)
	check := c.refused(c.bin("writ"), "check", repo)
	contains(t, "writ check", check, want...)
	if n := len(regexp.MustCompile(`(?m)^shop/bad\.yaml:\d+:\d+: `).FindAllString(check, -1)); n != 4 {
		t.Errorf("writ check has %d findings, want 4:\n%s", n, check)
	}
	if after := c.kubectl("get", "deploy,svc,cm", "-A", "-o", "name"); after != before {
		t.Errorf("the refused commit changed the cluster:\n%s", after)
	}
	// The branch has not moved, so the repository is well: the exit status is 0.
	contains(t, "writ status", c.must(c.bin("writ"), "status", "--data-dir", c.data), sha[:7], "Failed", "shop/bad.yaml:7:3")

	fixed := strings.NewReplacer("replica: 3\n", "replicas: 1\n  selector:\n    matchLabels:\n      app: bad\n", `"yes"`, "true", "80800", "8080").Replace(mistakes)
	c.write(file, fixed)
	contains(t, "writ plan", c.must(c.bin("writ"), "plan", repo, "--data-dir", c.data), "+ Deployment/shop/bad", "1 to create")
	c.must("git", "-C", repo, "add", "-A")
	c.must("git", "-C", repo, "commit", "-q", "--amend", "-m", "No mistakes")
	c.push(repo)
	if took := c.phase(repo, "Applied", "Healthy"); took > time.Second {
		t.Errorf("the fix was applied %v after its push, want under a second", took)
	}
	c.healthy(repo)
	os.Remove(file)
	c.commit(repo, "Remove it again")
	c.push(repo)
	c.healthy(repo)
}

// storyKillCommit: 500 objects, and the process is killed in the middle.
func storyKillCommit(t *testing.T, c *cluster, repo string) {
	for round := range 3 {
		dir := filepath.Join(repo, "many")
		for i := range 500 {
			c.write(filepath.Join(dir, fmt.Sprintf("cm-%03d.yaml", i)), fmt.Sprintf(
				"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: many-%03d\n  namespace: shop\ndata:\n  round: \"%d\"\n", i, round))
		}
		c.commit(repo, fmt.Sprintf("Five hundred, round %d", round))
		pushed := make(chan error, 1)
		go func() {
			_, err := c.run("git", "-C", repo, "push", "-q", "origin", "HEAD:main")
			pushed <- err
		}()
		time.Sleep(time.Duration(150+120*round) * time.Millisecond)
		c.stop("up", 9)
		<-pushed
		c.up()
		counts := map[string]int{}
		for _, r := range strings.Fields(c.kubectl("get", "cm", "-n", "shop", "-o", "jsonpath={.items[*].data.round}")) {
			counts[r]++
		}
		t.Logf("round %d: after the kill %v", round, counts)
		for r, n := range counts {
			if n != 500 || len(counts) != 1 {
				t.Fatalf("half a commit: %d objects of round %s (%v)", n, r, counts)
			}
		}
		c.push(repo) // the same commit again is fine, whether it arrived or not
		c.phase(repo, "Applied", "Healthy")
	}
	c.must("git", "-C", repo, "rm", "-qr", "many")
	c.must("git", "-C", repo, "commit", "-qm", "Away with them\n\nWrit-Allow-Deletes: true")
	c.push(repo)
	c.healthy(repo)
}

// containers returns pod/container -> container ID of all running pods.
func containers(c *cluster, namespace string) map[string]string {
	c.t.Helper()
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				ContainerStatuses []struct {
					Name, ContainerID string
					RestartCount      int
					State             struct{ Running *struct{} }
				}
			}
		}
	}
	if err := c.get(&list, "pods", "-n", namespace); err != nil {
		c.t.Fatal(err)
	}
	ids := map[string]string{}
	for _, p := range list.Items {
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Running != nil {
				ids[p.Metadata.Name+"/"+s.Name] = s.ContainerID
			}
		}
	}
	return ids
}

// sameContainers checks that what ran before runs still, unrestarted.
func sameContainers(t *testing.T, c *cluster, namespace string, before map[string]string) {
	t.Helper()
	after := containers(c, namespace)
	for name, id := range before {
		if after[name] != id {
			t.Errorf("container %s was %s and is %q", name, id, after[name])
		}
	}
}

// storyKillPods: killed while pods start; the running ones run on.
func storyKillPods(t *testing.T, c *cluster, repo string) {
	before := containers(c, "shop")
	if len(before) < 3 {
		t.Fatalf("only %d containers run: %v", len(before), before)
	}
	c.edit(filepath.Join(repo, "shop/web.cue"), "replicas: 3", "replicas: 8")
	c.commit(repo, "Eight")
	c.push(repo)
	time.Sleep(300 * time.Millisecond)
	c.stop("up", 9)
	c.up()
	c.eventually(time.Minute, "eight replicas", func() error {
		if !rolledOut(c, "v1", 8) {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	sameContainers(t, c, "shop", before)
	c.must("git", "-C", repo, "revert", "--no-edit", "HEAD")
	c.push(repo)
	c.healthy(repo)
	sameContainers(t, c, "guestbook", containers(c, "guestbook"))
}

// storyKillContainer: restarted with back-off, restartCount and events right.
func storyKillContainer(t *testing.T, c *cluster, _ string) {
	var victim, id string
	for name, cid := range containers(c, "shop") {
		if victim == "" || name < victim {
			victim, id = name, cid
		}
	}
	pod, _, _ := strings.Cut(victim, "/")
	restarts := func() string {
		return c.kubectl("get", "pod", pod, "-n", "shop", "-o", "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].lastState.terminated.exitCode}")
	}
	kill(c, strings.TrimPrefix(id, "containerd://"))
	c.eventually(20*time.Second, "first restart", func() error {
		if got := restarts(); got != "1 137" {
			return fmt.Errorf("restartCount and exit code are %q", got)
		}
		return nil
	})
	c.kubectl("wait", "-n", "shop", "--for=condition=Ready", "pod/"+pod, "--timeout=30s")
	kill(c, strings.TrimPrefix(containers(c, "shop")[victim], "containerd://"))
	c.eventually(20*time.Second, "back-off", func() error {
		out := c.kubectl("get", "pod", pod, "-n", "shop")
		if !strings.Contains(out, "CrashLoopBackOff") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	contains(t, "events", c.kubectl("events", "-n", "shop", "--for", "pod/"+pod), "BackOff", "Back-off restarting failed container", "Started")
	c.eventually(40*time.Second, "second restart", func() error {
		if got := restarts(); got != "2 137" {
			return fmt.Errorf("restartCount and exit code are %q", got)
		}
		return nil
	})
}

// kill kills the processes of a container behind the agent's back. Its ID is in
// the name of their control group.
func kill(c *cluster, id string) {
	c.t.Helper()
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		c.t.Fatal(err)
	}
	killed := 0
	for _, g := range groups {
		b, err := os.ReadFile(g)
		if err != nil || !strings.Contains(string(b), id) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(g)))
		if err != nil {
			c.t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err == nil {
			killed++
		}
	}
	if killed == 0 {
		c.t.Fatalf("no process of container %s", id)
	}
}

// storyAgentAway: the node agent is stopped for a minute.
func storyAgentAway(t *testing.T, c *cluster, _ string) {
	c.stop("up", 15)
	c.start("server", "server", "--no-agent", "--data-dir", c.data)
	c.start("agent", "agent", "--data-dir", c.data)
	c.ready()
	before := containers(c, "shop")
	c.stop("agent", 9)
	gone := time.Now()
	condition := func() string {
		return c.kubectl("get", "nodes", "-o", `jsonpath={.items[0].status.conditions[?(@.type=="Ready")].status} {.items[0].status.conditions[?(@.type=="Ready")].reason} {.items[0].spec.taints[*].key}`)
	}
	took := c.eventually(time.Minute, "node is Unknown", func() error {
		if got := condition(); !strings.HasPrefix(got, "Unknown NodeStatusUnknown") || !strings.Contains(got, "node.kubernetes.io/unreachable") {
			return fmt.Errorf("ready condition and taints: %s", got)
		}
		return nil
	})
	t.Logf("node is Unknown after %v", took.Round(time.Second))
	contains(t, "kubectl get nodes", c.kubectl("get", "nodes"), "NotReady")
	time.Sleep(time.Until(gone.Add(time.Minute)))
	clusterIP := c.kubectl("get", "-n", "shop", "service/web", "-o", "jsonpath={.spec.clusterIP}")
	c.must("curl", "-sSf", "--max-time", "5", "http://"+clusterIP+"/whoami") // nothing died

	c.start("agent", "agent", "--data-dir", c.data)
	c.eventually(30*time.Second, "node is back", func() error {
		if got := condition(); strings.TrimSpace(got) != "True KubeletReady" {
			return fmt.Errorf("ready condition and taints: %s", got)
		}
		return nil
	})
	sameContainers(t, c, "shop", before)
	names := make([]string, 0, len(before))
	for n := range before {
		names = append(names, n)
	}
	slices.Sort(names)
	t.Logf("still running: %v", names)
}
