package page

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// nodeView is a node, in the list and on its own page.
type nodeView struct {
	Name, Href    string
	State, Status string
	Roles         []string
	Age           moment
	OS, Kernel    string
	Kubelet       string
	Runtime       string
	Arch          string
	Image         string // the image of the appliance, where a label says it
	Addresses     string
	Meters        []meter
	Pods          []square
	MorePods      int
	PodCount      int
	Conditions    []conditionView
	Taints        []string
	Problems      []conditionView // those that are not as they should be
	Rows          []objectRow     // its pods, on its own page
	Events        []eventView
	Labels        []string
}

// meter is how much of something is asked for.
type meter struct {
	Name, Text string
	Percent    int
	State      string
}

// imageLabels say which image a node runs.
var imageLabels = []string{"writ.dev/image", "writ.dev/node-image", "node.writ.dev/image"}

func nodeOf(n *corev1.Node, pods []*corev1.Pod, squares []square, now time.Time) nodeView {
	info := &n.Status.NodeInfo
	v := nodeView{Name: n.Name, Href: hrefOf(nodeResource, keyOf(n)), Age: momentOf(n.CreationTimestamp.Time, now), OS: info.OSImage, Kernel: info.KernelVersion,
		Kubelet: info.KubeletVersion, Runtime: info.ContainerRuntimeVersion, Arch: info.Architecture, PodCount: len(pods), Pods: squares, Labels: labelsOf(n)}
	for _, l := range imageLabels {
		v.Image = cmp.Or(v.Image, n.Labels[l])
	}
	for k := range n.Labels {
		if role, ok := strings.CutPrefix(k, "node-role.kubernetes.io/"); ok {
			v.Roles = append(v.Roles, role)
		}
	}
	slices.Sort(v.Roles)
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			v.Addresses = strings.TrimPrefix(v.Addresses+", "+a.Address, ", ")
		}
	}
	for _, t := range n.Spec.Taints {
		v.Taints = append(v.Taints, t.ToString())
	}
	v.Conditions = conditionViews(nodeConditions(n), now)
	for _, c := range v.Conditions {
		if c.State != stateOK {
			v.Problems = append(v.Problems, c)
		}
	}
	v.State, v.Status = nodeState(n)
	v.Meters = metersOf(n, pods)
	return v
}

func nodeConditions(n *corev1.Node) []condition {
	var out []condition
	for _, c := range n.Status.Conditions {
		out = append(out, condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message, Time: c.LastTransitionTime.Time})
	}
	return out
}

// nodeState is how a node is, in kubectl's words.
func nodeState(n *corev1.Node) (state, status string) {
	state, status = stateWarn, "Unknown"
	pressed := false
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			switch c.Status {
			case corev1.ConditionTrue:
				state, status = stateOK, "Ready"
			case corev1.ConditionFalse:
				state, status = stateBad, "NotReady"
			default:
				state, status = stateBad, "Unknown"
			}
		} else if c.Status == corev1.ConditionTrue {
			pressed = true
		}
	}
	if pressed && state == stateOK {
		state = stateWarn
	}
	if n.Spec.Unschedulable {
		status += ", SchedulingDisabled"
		if state == stateOK {
			state = stateIdle
		}
	}
	return state, status
}

// metersOf compares what the pods of a node ask for with what it has to give.
func metersOf(n *corev1.Node, pods []*corev1.Pod) []meter {
	cpu, memory, count := resource.Quantity{}, resource.Quantity{}, 0
	for _, p := range pods {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		count++
		for i := range p.Spec.Containers {
			cpu.Add(*p.Spec.Containers[i].Resources.Requests.Cpu())
			memory.Add(*p.Spec.Containers[i].Resources.Requests.Memory())
		}
	}
	give := n.Status.Allocatable
	if len(give) == 0 {
		give = n.Status.Capacity
	}
	room := give.Pods().Value()
	return []meter{
		meterOf("CPU", cores(cpu.MilliValue())+" of "+cores(give.Cpu().MilliValue()), cpu.MilliValue(), give.Cpu().MilliValue()),
		meterOf("Memory", gib(memory.Value())+" of "+gib(give.Memory().Value())+" GiB", memory.Value(), give.Memory().Value()),
		meterOf("Pods", strconv.Itoa(count)+" of "+strconv.FormatInt(room, 10), int64(count), room),
	}
}

func meterOf(name, text string, used, all int64) meter {
	m := meter{Name: name, Text: text, State: stateOK}
	if all > 0 {
		m.Percent = int(min(max(float64(used)/float64(all), 0), 1) * 100)
	}
	switch {
	case m.Percent >= 95:
		m.State = stateBad
	case m.Percent >= 80:
		m.State = stateWarn
	}
	return m
}

func cores(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }

func gib(bytes int64) string { return strconv.FormatFloat(float64(bytes)/(1<<30), 'f', 1, 64) }

var nodeResource = schema.ResourceFor[*corev1.Node]()

// podsOn are the pods of a node that the viewer may list.
func (w *world) podsOn(node string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range w.cache.Index(podResource, client.IndexNode, node) {
		if p, ok := o.(*corev1.Pod); ok && w.viewer.mayList(podResource, p.Namespace) {
			out = append(out, p)
		}
	}
	return out
}

// nodesView is the page of nodes.
type nodesView struct {
	Nodes  []nodeView
	Counts []count
}

const (
	maxNodes    = 200 // on the page
	nodeSquares = 60
)

func nodesOf(all []*corev1.Node, podsOn func(string) ([]*corev1.Pod, []square), now time.Time) nodesView {
	var v nodesView
	counts := map[string]int{}
	for _, n := range all {
		state, _ := nodeState(n)
		counts[state]++
	}
	for _, s := range []struct{ state, label string }{{stateOK, "Ready"}, {stateIdle, "Cordoned"}, {stateWarn, "Under pressure"}, {stateBad, "Not ready"}} {
		if counts[s.state] > 0 {
			v.Counts = append(v.Counts, count{State: s.state, Label: s.label, N: counts[s.state]})
		}
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *corev1.Node) int {
		sa, _ := nodeState(a)
		sb, _ := nodeState(b)
		return cmp.Or(cmp.Compare(boolRank(sa == stateBad), boolRank(sb == stateBad)), strings.Compare(a.Name, b.Name))
	})
	for _, n := range all[:min(len(all), maxNodes)] {
		pods, squares := podsOn(n.Name)
		more := max(len(squares)-nodeSquares, 0)
		node := nodeOf(n, pods, squares[:len(squares)-more], now)
		node.MorePods = more
		v.Nodes = append(v.Nodes, node)
	}
	return v
}

// boolRank puts what is true first.
func boolRank(b bool) int {
	if b {
		return 0
	}
	return 1
}

func nodesPage(w *world) content {
	v := nodesOf(listOf[*corev1.Node](w, ""), func(name string) ([]*corev1.Pod, []square) {
		pods := w.podsOn(name)
		return pods, squaresOf(pods, w.health)
	}, w.now)
	return content{Title: "Nodes", Section: "nodes", Live: "nodes", Body: v}
}

func nodePage(w *world, name string) (content, bool) {
	o, ok := w.get(nodeResource, schema.Key{Name: name})
	if !ok {
		return content{}, false
	}
	n, ok := o.(*corev1.Node)
	if !ok {
		return content{}, false
	}
	pods := w.podsOn(name)
	v := nodeOf(n, pods, nil, w.now)
	for _, p := range pods {
		it := item{ref: ref{podResource, keyOf(p)}, object: p, health: w.health(p)}
		row := objectRowOf(&it, w.now, func(*item) []square { return nil })
		ready, all := readyContainers(p)
		row.Ready = strconv.Itoa(ready) + "/" + strconv.Itoa(all)
		v.Rows = append(v.Rows, row)
	}
	slices.SortStableFunc(v.Rows, func(a, b objectRow) int { return cmp.Compare(stateRank(a.State), stateRank(b.State)) })
	about := func(r *corev1.ObjectReference) bool { return r.Kind == "Node" && r.Name == name }
	v.Events = eventsOf(listOf[*corev1.Event](w, "default"), nil, about, w.now, func(string) string { return "" })
	for i := range v.Events {
		v.Events[i].Object = ""
	}
	return content{Title: "Node " + name, Section: "nodes", Live: "nodes,events", Body: v}, true
}
