package nodeagent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/schema"
)

// change alters a pod on the server, until nobody else does at the same time.
func (n *realNode) change(name string, fn func(*corev1.Pod)) {
	n.t.Helper()
	for range 100 {
		p, err := client.Get[*corev1.Pod](n.t.Context(), n.api, schema.Key{Namespace: "default", Name: name})
		if err != nil {
			n.t.Fatal(err)
		}
		p = p.DeepCopy()
		fn(p)
		if _, err = client.Update(n.t.Context(), n.api, p, client.WriteOptions{}); err == nil {
			return
		}
	}
	n.t.Fatal("the pod cannot be changed")
}

// A container that is added to a running pod sees the processes of the one it
// is aimed at; the pod goes on as if nothing had happened.
func TestEphemeralContainer(t *testing.T) {
	n := newRealNode(t)
	n.create(testPod("a", func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"/writ", "pause", "target"} }))
	n.await("a", "ready", runningReady)
	n.change("a", func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			TargetContainerName: "c",
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debug", Image: image.DemoV1, Command: []string{"/writ", "cat", "/proc/1/cmdline"}, TerminationMessagePath: "/dev/termination-log",
			},
		}}
	})
	p := n.await("a", "looked into", func(p *corev1.Pod) bool {
		s := p.Status.EphemeralContainerStatuses
		return len(s) == 1 && s[0].State.Terminated != nil
	})
	if st := p.Status.EphemeralContainerStatuses[0].State.Terminated; st.ExitCode != 0 {
		t.Errorf("%+v", st)
	}
	if got := n.logs(p, "debug", 0); !strings.Contains(got, "target") {
		t.Errorf("process 1 of the target: %q", got)
	}
	if !runningReady(p) || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod: %+v", p.Status)
	}
}

// Limits change under a running container; with the policy that wants it, by a
// new start.
func TestResizeInPlace(t *testing.T) {
	n := newRealNode(t)
	set := func(cpu, memory string) corev1.ResourceRequirements {
		l := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		return corev1.ResourceRequirements{Requests: l, Limits: l}
	}
	n.create(testPod("a", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = set("100m", "64Mi")
		p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{
			{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired}, {ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
		}
	}))
	p := n.await("a", "ready", runningReady)
	id := p.Status.ContainerStatuses[0].ContainerID
	n.change("a", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = set("200m", "64Mi") })
	applied := func(cpu string) func(p *corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			r := p.Status.ContainerStatuses[0].Resources
			return runningReady(p) && r != nil && r.Limits.Cpu().String() == cpu
		}
	}
	p = n.await("a", "resized", applied("200m"))
	if st := p.Status.ContainerStatuses[0]; st.ContainerID != id || st.RestartCount != 0 || st.AllocatedResources.Cpu().String() != "200m" {
		t.Errorf("the container after a change of its processors: %+v", st)
	}
	dir := filepath.Join(n.group, "pod"+string(p.UID))
	for _, group := range []string{dir, filepath.Join(dir, strings.TrimPrefix(id, "containerd://"))} {
		for range 200 { // the status may be ahead of the pod's own
			if strings.Contains(quotaOf(t, group), "20000") {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if got := quotaOf(t, group); !strings.Contains(got, "20000") {
			t.Errorf("quota of %s: %s", group, got)
		}
	}
	n.change("a", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = set("200m", "96Mi") })
	p = n.await("a", "restarted", func(p *corev1.Pod) bool { return runningReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	if got := p.Status.ContainerStatuses[0].Resources.Limits.Memory().String(); got != "96Mi" {
		t.Errorf("memory after the restart: %s", got)
	}
	n.change("a", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = set("4000", "96Mi") })
	n.await("a", "refused", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible {
				return p.Status.ContainerStatuses[0].AllocatedResources.Cpu().String() == "200m"
			}
		}
		return false
	})
}

// quotaOf reads the limit of a group's processors, on cgroup v1 or v2.
func quotaOf(t *testing.T, group string) string {
	t.Helper()
	for _, path := range []string{"/sys/fs/cgroup/cpu" + group + "/cpu.cfs_quota_us", "/sys/fs/cgroup" + group + "/cpu.max"} {
		if b, err := os.ReadFile(path); err == nil {
			return string(b)
		}
	}
	t.Fatalf("no limit of %s", group)
	return ""
}
