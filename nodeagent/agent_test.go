package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/runtime"
	"github.com/writ-os/writ/nodeagent/runtime/fake"
	"github.com/writ-os/writ/nodeagent/twin"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNode is an agent on a runtime in memory.
type fakeNode struct {
	*realNode // for await, create, gone
	fake      *fake.Runtime
}

func newFakeNode(t *testing.T, cfg fake.Config, change func(*Config)) *fakeNode {
	t.Helper()
	n := &fakeNode{realNode: &realNode{t: t, api: client.NewFake()}, fake: fake.New(cfg)}
	c := Config{
		NodeName: "n1", NodeIP: "127.0.0.1", Client: n.api, Cache: n.api.Cache(),
		Runtime: n.fake, Network: newFakeNetwork(1), simulated: true,
	}
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- New(c).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return n
}

func (n *fakeNode) reasons(pod string) []string {
	events, err := client.ListAll[*corev1.Event](n.t.Context(), n.api, client.ListOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	var out []string
	for _, e := range events {
		if e.InvolvedObject.Name == pod {
			out = append(out, e.Reason)
		}
	}
	return out
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not so in time: %s", what)
}

func TestNodeIsRegistered(t *testing.T) {
	n := newFakeNode(t, fake.Config{}, func(c *Config) {
		c.Labels = map[string]string{"zone": "a"}
		c.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	})
	var node *corev1.Node
	eventually(t, "node is ready", func() bool {
		var err error
		node, err = client.Get[*corev1.Node](t.Context(), n.api, schema.Key{Name: "n1"})
		return err == nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
	if node.Labels[corev1.LabelHostname] != "n1" || node.Labels["zone"] != "a" || len(node.Spec.Taints) != 1 {
		t.Errorf("node: %+v %+v", node.Labels, node.Spec)
	}
	if pods := node.Status.Allocatable[corev1.ResourcePods]; pods.Value() != 110 || node.Status.DaemonEndpoints.KubeletEndpoint.Port != 10250 {
		t.Errorf("status: %+v", node.Status)
	}
	eventually(t, "lease is held", func() bool {
		l, err := client.Get[*coordinationv1.Lease](t.Context(), n.api, schema.Key{Namespace: "kube-node-lease", Name: "n1"})
		return err == nil && *l.Spec.HolderIdentity == "n1" && *l.Spec.LeaseDurationSeconds == 40
	})
}

func TestPullFails(t *testing.T) {
	missing := func(ref string) bool { return ref == "docker.io/library/none:latest" }
	n := newFakeNode(t, fake.Config{Missing: missing, Pull: func(string, []image.Credentials) error { return errors.New("no such host") }}, nil)
	n.create(testPod("a", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "none" }))
	n.await("a", "failing to pull", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "ErrImagePull"
	})
	p := n.await("a", "backing off", func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].State.Waiting.Reason == "ImagePullBackOff"
	})
	if got := p.Status.ContainerStatuses[0].State.Waiting.Message; got != `Back-off pulling image "none": ErrImagePull: no such host` {
		t.Errorf("message: %s", got)
	}
	if p.Status.Phase != corev1.PodPending {
		t.Errorf("phase %s", p.Status.Phase)
	}
	eventually(t, "events", func() bool {
		r := n.reasons("a")
		return slices.Contains(r, "Pulling") && slices.Contains(r, "Failed")
	})
	// It can be deleted while it waits.
	if err := client.Delete[*corev1.Pod](t.Context(), n.api, schema.KeyOf(p), client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.gone("a")
}

func TestGraceAndEvents(t *testing.T) {
	n := newFakeNode(t, fake.Config{Behavior: func(runtime.Spec) fake.Outcome { return fake.Outcome{IgnoreTerm: true} }}, nil)
	n.create(testPod("a", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(1)) }))
	p := n.await("a", "ready", runningReady)
	begin := time.Now()
	if err := client.Delete[*corev1.Pod](t.Context(), n.api, schema.KeyOf(p), client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.gone("a")
	if took := time.Since(begin); took < 900*time.Millisecond || took > 5*time.Second {
		t.Errorf("a grace of 1 s took %s", took)
	}
	eventually(t, "events", func() bool {
		r := n.reasons("a")
		for _, want := range []string{"Pulled", "Created", "Started", "Killing"} {
			if !slices.Contains(r, want) {
				return false
			}
		}
		return true
	})
}

func TestJobPodSucceeds(t *testing.T) {
	n := newFakeNode(t, fake.Config{Behavior: func(runtime.Spec) fake.Outcome { return fake.Outcome{After: 20 * time.Millisecond} }}, nil)
	n.create(testPod("a", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }))
	p := n.await("a", "succeeded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	if st := p.Status.ContainerStatuses[0].State.Terminated; st == nil || st.Reason != "Completed" {
		t.Errorf("state: %+v", p.Status.ContainerStatuses[0].State)
	}
}

func TestLostSandboxIsMadeAgain(t *testing.T) {
	n := newFakeNode(t, fake.Config{}, nil)
	n.create(testPod("a", nil))
	p := n.await("a", "ready", runningReady)
	n.fake.LoseSandbox(string(p.UID))
	n.await("a", "ready again", func(p *corev1.Pod) bool { return runningReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
}

func TestStaticPod(t *testing.T) {
	dir := t.TempDir()
	n := newFakeNode(t, fake.Config{}, func(c *Config) { c.StaticDir = dir })
	path := filepath.Join(dir, "web.yaml")
	write := func(image string) {
		text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: c, image: %s}\n", image)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a:1")
	var first *corev1.Pod
	ready := func() bool {
		p, err := client.Get[*corev1.Pod](t.Context(), n.api, schema.Key{Namespace: "default", Name: "web-n1"})
		first = p
		return err == nil && runningReady(p)
	}
	eventually(t, "mirror runs", ready)
	if first.Annotations["kubernetes.io/config.mirror"] == "" || first.Annotations["kubernetes.io/config.source"] != "file" {
		t.Errorf("annotations: %v", first.Annotations)
	}
	// Deleting the mirror does not stop the pod: it comes back.
	if err := client.Delete[*corev1.Pod](t.Context(), n.api, schema.KeyOf(first), client.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	old := first.UID
	eventually(t, "mirror comes back", func() bool { return ready() && first.UID != old })
	if first.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("deleting the mirror restarted the pod")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod is gone with its file", func() bool {
		list, _ := n.fake.List(t.Context(), "")
		pods, _ := client.ListAll[*corev1.Pod](t.Context(), n.api, client.ListOptions{})
		return len(list) == 0 && len(pods) == 0
	})
}

func TestBadStaticFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: x}]}\n",
		"bad.yaml":  "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containerz: []}\n",
		"other":     "kind: ConfigMap",
		".hidden":   "nonsense",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pods, err := readStatic(dir, "n1")
	if len(pods) != 1 || err == nil {
		t.Errorf("%d pods, %v", len(pods), err)
	}
}

func TestSimulate(t *testing.T) {
	api := client.NewFake()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Simulate(ctx, SimulateConfig{Client: api, Cache: api.Cache(), Count: 20}) }()
	for i := range 200 {
		p := testPod(fmt.Sprintf("p%d", i), func(p *corev1.Pod) { p.Spec.NodeName = fmt.Sprintf("node-%d", i%20) })
		api.Put(p)
	}
	eventually(t, "all pods run", func() bool {
		pods, err := client.ListAll[*corev1.Pod](t.Context(), api, client.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, p := range pods {
			if runningReady(p) {
				n++
			}
		}
		return n == 200
	})
	nodes, err := client.ListAll[*corev1.Node](t.Context(), api, client.ListOptions{})
	if err != nil || len(nodes) != 20 {
		t.Errorf("%d nodes, %v", len(nodes), err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Status is written when something changes, and otherwise rarely.
func TestNodeStatusHeartbeat(t *testing.T) {
	m := &machine{cpus: 2, memory: 8 << 30}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := observed{now: now, name: "n", ip: "10.0.0.1", machine: m, runtime: "containerd://1", missing: []string{"CAP_SYS_RESOURCE: no"}}
	first := nodeStatus(corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "NetworkUnavailable", Status: "False", LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}}, o)
	find := func(st corev1.NodeStatus, t corev1.NodeConditionType) corev1.NodeCondition {
		return st.Conditions[slices.IndexFunc(st.Conditions, func(c corev1.NodeCondition) bool { return c.Type == t })]
	}
	if c := find(first, CapabilitiesComplete); c.Status != corev1.ConditionFalse || c.Reason != "MissingCapSysResource" {
		t.Errorf("%+v", c)
	}
	if len(first.Conditions) != 6 {
		t.Errorf("a foreign condition is lost: %+v", first.Conditions)
	}
	o.now = now.Add(time.Minute)
	second := nodeStatus(first, o)
	if !heartbeatOnly(first, second) {
		t.Error("the clock alone changes the status")
	}
	o.runtime, o.runtimeErr = "", "gone"
	third := nodeStatus(second, o)
	if c := find(third, corev1.NodeReady); heartbeatOnly(second, third) || c.Status != corev1.ConditionFalse || !c.LastTransitionTime.Time.Equal(o.now) {
		t.Errorf("%+v", c)
	}
}

// An agent does not take over the Node of another machine that lives, and one
// whose Node was taken over ends: its containers go on.
func TestTwoMachinesOfOneName(t *testing.T) {
	first, second := twin.Machine{ID: "1"}, twin.Machine{ID: "2"}
	n := newFakeNode(t, fake.Config{}, func(c *Config) { c.Machine = first })
	registered := func(id string) func() bool {
		return func() bool {
			node, err := client.Get[*corev1.Node](t.Context(), n.api, schema.Key{Name: "n1"})
			return err == nil && node.Status.NodeInfo.MachineID == id
		}
	}
	eventually(t, "the first is the node", registered("1"))
	n.create(testPod("a", nil))
	n.await("a", "ready", runningReady)

	dir := t.TempDir()
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: own}\nspec:\n  containers:\n  - {name: c, image: a:1}\n"
	if err := os.WriteFile(filepath.Join(dir, "own.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	other := fake.New(fake.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	agent := New(Config{NodeName: "n1", NodeIP: "127.0.0.2", Client: n.api, Cache: n.api.Cache(), Runtime: other, Network: newFakeNetwork(2), StaticDir: dir, simulated: true, Machine: second})
	go func() { done <- agent.Run(ctx) }()
	eventually(t, "the second runs its own pod", func() bool { l, _ := other.List(t.Context(), ""); return len(l) > 0 })
	time.Sleep(300 * time.Millisecond)
	if !registered("1")() {
		t.Error("the second has the node of the first")
	}
	if pods := agent.Pods().List(); len(pods) != 1 || pods[0].Name != "own-n1" {
		t.Errorf("the second runs the pods of the first: %d", len(pods))
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}

	// Somebody gives the name to the second, and it is what writes the lease.
	away := New(Config{NodeName: "n2", NodeIP: "127.0.0.3", Client: n.api, Cache: n.api.Cache(), Runtime: fake.New(fake.Config{}), Network: newFakeNetwork(3), simulated: true, Machine: first})
	go func() { done <- away.Run(t.Context()) }()
	eventually(t, "n2 has a lease", func() bool {
		_, err := client.Get[*coordinationv1.Lease](t.Context(), n.api, schema.Key{Namespace: "kube-node-lease", Name: "n2"})
		node, nerr := client.Get[*corev1.Node](t.Context(), n.api, schema.Key{Name: "n2"})
		return err == nil && nerr == nil && node.Status.NodeInfo.MachineID == "1"
	})
	for range 20 { // until nobody has written to it in between
		node, err := client.Get[*corev1.Node](t.Context(), n.api, schema.Key{Name: "n2"})
		if err != nil {
			t.Fatal(err)
		}
		node = node.DeepCopy()
		node.Status.NodeInfo.MachineID = "2"
		l, err := client.Get[*coordinationv1.Lease](t.Context(), n.api, schema.Key{Namespace: "kube-node-lease", Name: "n2"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = client.Update(t.Context(), n.api, node, client.WriteOptions{Subresource: "status"}); err == nil {
			l = l.DeepCopy()
			l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
			_, err = client.Update(t.Context(), n.api, l, client.WriteOptions{FieldManager: "other"})
		}
		if err == nil {
			break
		}
	}
	select {
	case err := <-done:
		if want := "another machine at 127.0.0.3 is node n2 (machine ID 2), so this one (machine ID 1) is not: give one of them another name, by nodeName in node.yaml or --node-name"; !isTaken(err) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("the first: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the first goes on")
	}
}
