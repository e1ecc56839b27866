package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/writ-os/writ/schema"
)

// podInfo is a pod with everything that filters and scores ask of it, worked
// out once.
type podInfo struct {
	pod      *corev1.Pod
	key      schema.Key
	priority int32

	asked   resources // what filters count
	counted resources // what scores count
	ports   []hostPort
	owner   types.UID // of the controller, for spreading
	peers   *peerRules

	// The following are for pods that wait for a node only.
	required  *nodeaffinity.RequiredNodeAffinity // nil: any node
	preferred *nodeaffinity.PreferredSchedulingTerms
	// names are the only nodes that the affinity admits; nil when it does not
	// name nodes. Pods of DaemonSets name one.
	names map[string]bool
	// nominated is the node that room is being made on for it.
	nominated string
}

// hostPort is a port of the node that a pod takes.
type hostPort struct {
	ip       string // "0.0.0.0" for all addresses
	protocol corev1.Protocol
	port     int32
}

// newPod works out what counts of a pod on a node.
func newPod(pod *corev1.Pod) *podInfo {
	p := &podInfo{pod: pod, key: schema.KeyOf(pod), priority: corev1helpers.PodPriority(pod), ports: hostPorts(pod), peers: peerRulesOf(pod)}
	p.asked, p.counted = requestsOf(pod)
	if c := metav1.GetControllerOfNoCopy(pod); c != nil {
		p.owner = c.UID
	}
	return p
}

// newPending works out what counts of a pod that waits for a node.
func newPending(pod *corev1.Pod) (*podInfo, error) {
	p := newPod(pod)
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil {
		if len(pod.Spec.NodeSelector) > 0 {
			r := nodeaffinity.GetRequiredNodeAffinity(pod)
			p.required = &r
		}
		return p, nil
	}
	r := nodeaffinity.GetRequiredNodeAffinity(pod)
	p.required = &r
	p.names = namedNodes(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	if terms := a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution; len(terms) > 0 {
		var err error
		if p.preferred, err = nodeaffinity.NewPreferredSchedulingTerms(terms); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// namedNodes returns the nodes that a selector admits by name; nil when some
// term admits nodes without naming them.
func namedNodes(s *corev1.NodeSelector) map[string]bool {
	if s == nil {
		return nil
	}
	names := map[string]bool{}
	for _, term := range s.NodeSelectorTerms {
		var of []string
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn {
				of = f.Values
			}
		}
		if of == nil {
			return nil
		}
		for _, n := range of {
			names[n] = true
		}
	}
	return names
}

func hostPorts(pod *corev1.Pod) []hostPort {
	var ports []hostPort
	take := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			h := hostPort{ip: p.HostIP, protocol: p.Protocol, port: p.HostPort}
			if h.ip == "" || h.ip == "::" {
				h.ip = anyAddress
			}
			if h.protocol == "" {
				h.protocol = corev1.ProtocolTCP
			}
			ports = append(ports, h)
		}
	}
	for i := range pod.Spec.Containers {
		take(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			take(c)
		}
	}
	return ports
}

// ended says whether a pod has left its node's resources for good.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
