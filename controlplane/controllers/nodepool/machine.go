package nodepool

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// controlPlaneLabel is set on the nodes that run the control plane, as kubeadm
// does it.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// The steps of a node in work, as its annotation has them.
//
//	"" ──Cordon──▶ Draining ──Reboot──▶ Rebooting ──Uncordon──▶ Settling ──▶ ""
//	                  │                     │                  ▲       │
//	                  └──────▶ "" ◀─────────┘                  └▶ Unsettled
//	                 (nothing to do any more, or failed: released)
const (
	draining  = "Draining"
	rebooting = "Rebooting"
	settling  = "Settling"
	unsettled = "Unsettled"
)

// machine is a node as the plan sees it.
type machine struct {
	*corev1.Node
	ours         bool // made from an image: its agent reports one
	ready        bool
	controlPlane bool
	unset        string // which settings of its pool are not in force, and why

	// What the agent says.
	version, arguments string // that run; arguments as a hash
	phase              v1alpha1.UpdatePhase
	message            string
	failed             string // the NodeImage that failed here

	// What the agent was told.
	desired, desiredArguments string
	reboot                    string

	// What we are doing, and since when. A zero time: nobody noted it.
	step  string
	since time.Time
}

func read(n *corev1.Node) *machine {
	a := n.Annotations
	m := &machine{
		Node: n, version: a[v1alpha1.ImageAnnotation], arguments: a[v1alpha1.KernelArgumentsAnnotation],
		phase: v1alpha1.UpdatePhase(a[v1alpha1.UpdatePhaseAnnotation]), message: a[v1alpha1.UpdateMessageAnnotation], failed: a[v1alpha1.UpdateFailedAnnotation],
		desired: a[v1alpha1.DesiredImageAnnotation], desiredArguments: a[v1alpha1.DesiredKernelArgumentsAnnotation], reboot: a[v1alpha1.RebootAnnotation],
	}
	m.ours = m.version != ""
	m.ready, m.unset = isReady(n), unset(n)
	_, m.controlPlane = n.Labels[controlPlaneLabel]
	m.step, m.since = readStep(a[v1alpha1.UpdateStepAnnotation])
	if m.step == "" { // somebody took the note away: the other annotations tell
		switch {
		case m.reboot != "":
			m.step = rebooting
		case m.cordoned():
			m.step = draining
		}
	}
	return m
}

// note writes what we do with a node, and since when.
func note(step string, now time.Time) string { return step + " " + now.UTC().Format(time.RFC3339) }

// readStep reads a note. One that is damaged is none.
func readStep(s string) (step string, since time.Time) {
	step, at, _ := strings.Cut(s, " ")
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return "", time.Time{}
	}
	switch step {
	case draining, rebooting, settling, unsettled:
		return step, t
	}
	return "", time.Time{}
}

func isReady(n *corev1.Node) bool {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// unset is what a node says of settings that it cannot make.
func unset(n *corev1.Node) string {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == v1alpha1.NodeSettingsApplied && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// cordoned says that the node is unschedulable because of us.
func (m *machine) cordoned() bool {
	return m.Annotations[v1alpha1.CordonedByAnnotation] == v1alpha1.CordonedByNodePool
}

// away says that the node does not carry its share: it counts against what may
// be unavailable. One that settles does until it has shown that it is well.
func (m *machine) away() bool { return !m.ready || m.step != "" }

// runs says that the node runs an image with kernel arguments.
func (m *machine) runs(i *v1alpha1.NodeImage, arguments string) bool {
	return m.version == i.Spec.Version && m.arguments == v1alpha1.KernelArgumentsHash(arguments)
}

// booting says that the node is between two systems.
func (m *machine) booting() bool {
	return m.phase == v1alpha1.UpdateRebooting || m.phase == v1alpha1.UpdateTrying
}

// arrived says that the node has come up, well, with what it was told to reboot
// into.
func (m *machine) arrived(i *v1alpha1.NodeImage) bool {
	return m.ready && !m.booting() && m.failed != i.Name && m.runs(i, m.desiredArguments)
}

// suits says whether the image is for a machine like this. A node that does not
// say what it is takes any.
func (m *machine) suits(i *v1alpha1.NodeImage) bool {
	arch := m.Status.NodeInfo.Architecture
	return arch == "" || arch == i.Spec.Arch || i.Spec.Arch == "" && arch == "amd64"
}
