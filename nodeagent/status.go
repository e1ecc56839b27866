package nodeagent

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/nodeagent/image"
)

// CapabilitiesComplete is our own condition of nodes: False says in its
// message what this node cannot do.
const CapabilitiesComplete corev1.NodeConditionType = "CapabilitiesComplete"

// observed is what a node's status is made from.
type observed struct {
	now        time.Time
	name, ip   string
	port       int32
	machine    *machine
	runtime    string // "containerd://1.6.20"; "" while it does not answer
	runtimeErr string
	missing    []string
	pressure   pressure
	images     []image.Image
}

const maxImages = 50 // in a node's status, as upstream

// nodeStatus computes a node's status. It keeps what is not the agent's:
// foreign conditions, volumes, and the heartbeat of what has not changed.
func nodeStatus(last corev1.NodeStatus, o observed) corev1.NodeStatus {
	st := *last.DeepCopy()
	st.Capacity, st.Allocatable = o.machine.capacity(), o.machine.allocatable()
	st.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: o.ip},
		{Type: corev1.NodeHostName, Address: o.name},
	}
	st.DaemonEndpoints.KubeletEndpoint.Port = o.port
	st.NodeInfo = o.machine.info
	st.NodeInfo.ContainerRuntimeVersion = o.runtime
	if o.images != nil {
		st.Images = nodeImages(o.images)
	}
	for _, c := range nodeConditions(o) {
		setCondition(&st, c, o.now)
	}
	return st
}

func nodeConditions(o observed) []corev1.NodeCondition {
	is := func(t corev1.NodeConditionType, bad bool, badReason, goodReason, badMessage, goodMessage string) corev1.NodeCondition {
		if bad {
			return corev1.NodeCondition{Type: t, Status: corev1.ConditionTrue, Reason: badReason, Message: badMessage}
		}
		return corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse, Reason: goodReason, Message: goodMessage}
	}
	out := []corev1.NodeCondition{
		is(corev1.NodeMemoryPressure, o.pressure.memory, "KubeletHasInsufficientMemory", "KubeletHasSufficientMemory",
			"kubelet has insufficient memory available", "kubelet has sufficient memory available"),
		is(corev1.NodeDiskPressure, o.pressure.disk, "KubeletHasDiskPressure", "KubeletHasNoDiskPressure",
			"kubelet has disk pressure", "kubelet has no disk pressure"),
		is(corev1.NodePIDPressure, o.pressure.pids, "KubeletHasInsufficientPID", "KubeletHasSufficientPID",
			"kubelet has insufficient PID available", "kubelet has sufficient PID available"),
	}
	complete := corev1.NodeCondition{Type: CapabilitiesComplete, Status: corev1.ConditionTrue,
		Reason: "AllCapabilities", Message: "the agent can do all that it is asked for"}
	if len(o.missing) > 0 {
		complete.Status = corev1.ConditionFalse
		complete.Reason = missingReason(o.missing[0])
		complete.Message = "missing on this node: " + strings.Join(o.missing, "; ")
	}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		Reason: "KubeletReady", Message: "kubelet is posting ready status"}
	if o.runtime == "" {
		ready.Status, ready.Reason = corev1.ConditionFalse, "KubeletNotReady"
		ready.Message = "container runtime is down: " + o.runtimeErr
	}
	return append(out, complete, ready)
}

// missingReason makes a reason of the first word of what is missing:
// "CAP_SYS_RESOURCE: ..." becomes MissingCapSysResource.
func missingReason(what string) string {
	word, _, _ := strings.Cut(what, ":")
	word, _, _ = strings.Cut(word, " ")
	out := "Missing"
	for _, part := range strings.Split(strings.ToLower(word), "_") {
		if part != "" {
			out += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return out
}

// setCondition replaces a condition; it transits only when its status changes.
func setCondition(st *corev1.NodeStatus, c corev1.NodeCondition, now time.Time) {
	c.LastHeartbeatTime = metav1.NewTime(now.Truncate(time.Second))
	c.LastTransitionTime = c.LastHeartbeatTime
	for i := range st.Conditions {
		old := &st.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		*old = c
		return
	}
	st.Conditions = append(st.Conditions, c)
}

// nodeImages lists the largest images, which the scheduler may prefer.
func nodeImages(all []image.Image) []corev1.ContainerImage {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b image.Image) int { return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.ID, b.ID)) })
	var out []corev1.ContainerImage
	for _, img := range all[:min(len(all), maxImages)] {
		names := slices.Clone(img.Names)
		slices.Sort(names)
		if strings.Contains(img.ID, "@") {
			names = append([]string{img.ID}, names...)
		}
		out = append(out, corev1.ContainerImage{Names: names, SizeBytes: img.Size})
	}
	return out
}

// heartbeatOnly says whether two statuses differ in nothing but heartbeats.
func heartbeatOnly(a, b corev1.NodeStatus) bool {
	a, b = *a.DeepCopy(), *b.DeepCopy()
	for _, st := range []*corev1.NodeStatus{&a, &b} {
		for i := range st.Conditions {
			st.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
	}
	return equal(a, b)
}

// wantedLabels are those that the agent keeps on its node.
func wantedLabels(cfg Config, arch string) map[string]string {
	out := map[string]string{
		corev1.LabelHostname:           cfg.NodeName,
		corev1.LabelOSStable:           "linux",
		corev1.LabelArchStable:         arch,
		corev1.LabelInstanceTypeStable: "writ",
	}
	maps.Copy(out, cfg.Labels)
	return out
}
