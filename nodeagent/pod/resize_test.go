package pod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func asking(cpu, memory string) *corev1.Pod {
	p := aPod("c")
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list(cpu, memory)}
	return p
}

func TestGrant(t *testing.T) {
	for _, c := range []struct {
		pod    *corev1.Pod
		others corev1.ResourceList
		reason string
		text   string
	}{
		{asking("1", "1Gi"), list("1", "1Gi"), "", ""},
		{asking("3", "1Gi"), nil, "Infeasible", "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000"},
		{asking("1", "5Gi"), nil, "Infeasible", "Node didn't have enough capacity: memory, requested: 5368709120, capacity: 4294967296"},
		{asking("1500m", "1Gi"), list("600m", "0"), "Deferred", "Node didn't have enough resource: cpu, requested: 1500, used: 600, capacity: 2000"},
	} {
		v := grant(c.pod, list("2", "4Gi"), c.others)
		if (v == nil) != (c.reason == "") || v != nil && (v.Reason != c.reason || v.Message != c.text) {
			t.Errorf("%v beside %v: %+v, want %s %s", c.pod.Spec.Containers[0].Resources.Requests, c.others, v, c.reason, c.text)
		}
	}
}

func TestRestarts(t *testing.T) {
	c := &corev1.Container{ResizePolicy: []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
		{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
	}}
	from := corev1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("1", "1Gi")}
	cpu := corev1.ResourceRequirements{Requests: list("2", "1Gi"), Limits: list("2", "1Gi")}
	memory := corev1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("1", "2Gi")}
	if restarts(c, from, cpu) || !restarts(c, from, memory) {
		t.Error("restarts for processors, or not for memory")
	}
}

// What a resize says in the status, from asked for to done.
func TestResizeStatus(t *testing.T) {
	small := corev1.ResourceRequirements{Requests: list("1", "1Gi")}
	big := corev1.ResourceRequirements{Requests: list("2", "1Gi")}
	of := func(r corev1.ResourceRequirements) map[string]corev1.ResourceRequirements {
		return map[string]corev1.ResourceRequirements{"c": r}
	}
	for _, c := range []struct {
		name       string
		resize     *Resize
		conditions string
		allocated  string
		applied    string
	}{
		{"refused", &Resize{Allocated: of(small), Applied: of(small), Pending: &Verdict{"Deferred", "later"}}, "PodResizePending=Deferred", "1", "1"},
		{"granted", &Resize{Allocated: of(big), Applied: of(small)}, "PodResizeInProgress=", "2", "1"},
		{"failed", &Resize{Allocated: of(big), Applied: of(small), Failed: "no"}, "PodResizeInProgress=Error", "2", "1"},
		{"done", &Resize{Allocated: of(big), Applied: of(big)}, "", "2", "2"},
	} {
		in := Input{Pod: asking("2", "1Gi"), Now: t0, Sandbox: ready, Prepared: true, Containers: map[string]*Container{"c": up(0)}, Resize: c.resize}
		in.Last.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue}}
		out := Step(in)
		var said []string
		for _, cond := range out.Status.Conditions {
			if cond.Type == corev1.PodResizePending || cond.Type == corev1.PodResizeInProgress {
				said = append(said, string(cond.Type)+"="+cond.Reason)
			}
		}
		cs := out.Status.ContainerStatuses[0]
		if got := strings.Join(said, " "); got != c.conditions || cs.AllocatedResources.Cpu().String() != c.allocated || cs.Resources.Requests.Cpu().String() != c.applied {
			t.Errorf("%s: %q, allocated %s, applied %s", c.name, got, cs.AllocatedResources.Cpu(), cs.Resources.Requests.Cpu())
		}
		if len(out.Actions) != 0 {
			t.Errorf("%s: %s", c.name, describe(out.Actions))
		}
	}
}

// Ephemeral containers start beside whatever runs, or waits to; never twice;
// and end with the pod.
func TestEphemeral(t *testing.T) {
	pod := aPod("init first", "c")
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	type cs map[string]*Container
	for _, c := range []struct {
		name string
		in   Input
		want string
	}{
		{"beside an init container that hangs", Input{Containers: cs{"first": up(0)}}, "Start debug #0 backoff 0s"},
		{"runs", Input{Containers: cs{"first": down(0, 0, 0, 0), "c": up(0), "debug": up(0)}}, ""},
		{"has ended", Input{Containers: cs{"first": down(0, 0, 0, 0), "c": up(0), "debug": down(1, 0, 0, 0)}}, ""},
		{"ended before this agent", Input{Containers: cs{"first": down(0, 0, 0, 0), "c": up(0)}, Last: corev1.PodStatus{
			EphemeralContainerStatuses: []corev1.ContainerStatus{{Name: "debug", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}},
		}}, ""},
		{"the pod is killed", Input{Containers: cs{"first": down(0, 0, 0, 0), "c": down(0, 0, 0, 0), "debug": up(0)}, Killed: &Verdict{"Evicted", "x"}}, `Stop debug 30s "Stopping container debug"`},
	} {
		c.in.Pod, c.in.Now, c.in.Sandbox, c.in.Prepared = pod, t0, ready, true
		out := Step(c.in)
		if got := describe(out.Actions); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		st := out.Status.EphemeralContainerStatuses
		if len(st) != 1 || st[0].Ready || st[0].Started != nil {
			t.Errorf("%s: %+v", c.name, st)
		}
	}
}
