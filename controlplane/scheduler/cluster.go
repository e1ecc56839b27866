package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/writ-os/writ/schema"
)

// cluster is the scheduler's own account of nodes and the pods on them. One
// goroutine owns it.
type cluster struct {
	nodes  []*nodeInfo // those that exist, in no order
	byName map[string]*nodeInfo
	pods   map[schema.Key]*placed
	peers  *peers
}

// placed is a pod that counts on a node: because it is bound to it, or because
// it is assumed there until its binding is seen.
type placed struct {
	*podInfo
	node    *nodeInfo
	assumed bool
}

func newCluster() *cluster {
	c := &cluster{byName: map[string]*nodeInfo{}, pods: map[schema.Key]*placed{}}
	c.peers = newPeers(c)
	return c
}

func (c *cluster) entry(name string) *nodeInfo {
	n := c.byName[name]
	if n == nil {
		n = newNode(name)
		n.peers = c.peers
		c.byName[name] = n
	}
	return n
}

// setNode takes in a node and says whether pods may fit now that did not.
func (c *cluster) setNode(node *corev1.Node) (*nodeInfo, bool) {
	n := c.entry(node.Name)
	better := n.set(node)
	if n.index < 0 {
		n.index = len(c.nodes)
		c.nodes = append(c.nodes, n)
		better = true
	}
	return n, better
}

// removeNode forgets a node. Its pods stay counted until they are gone too, in
// case it comes back.
func (c *cluster) removeNode(name string) {
	n := c.byName[name]
	if n == nil || n.index < 0 {
		return
	}
	last := c.nodes[len(c.nodes)-1]
	c.nodes[n.index], last.index = last, n.index
	c.nodes = c.nodes[:len(c.nodes)-1]
	n.index, n.node = -1, nil
	c.dropEmpty(n)
}

func (c *cluster) dropEmpty(n *nodeInfo) {
	if n.node == nil && len(n.pods) == 0 {
		delete(c.byName, n.name)
	}
}

// setPod counts a bound pod. It returns the node that has got room by it: that
// of a pod which asks for less than before, or was assumed elsewhere.
func (c *cluster) setPod(pod *corev1.Pod) *nodeInfo {
	key := schema.KeyOf(pod)
	have := c.pods[key]
	if have != nil && have.node.name == pod.Spec.NodeName && !changesAccount(have.pod, pod) {
		have.assumed = false
		have.pod = pod // the store's newest, so that no old one is kept alive
		return nil
	}
	var freed *nodeInfo
	if have != nil {
		freed = c.removePod(key)
	}
	p := newPod(pod)
	n := c.entry(pod.Spec.NodeName)
	n.put(p)
	c.pods[key] = &placed{podInfo: p, node: n}
	return freed
}

// changesAccount says whether two states of a pod count differently: its spec
// has changed, or what a resize in place has been granted, has got, or is
// refused.
func changesAccount(a, b *corev1.Pod) bool {
	return a.UID != b.UID || a.Generation != b.Generation || infeasible(a) != infeasible(b) || !equality.Semantic.DeepEqual(held(a), held(b))
}

// held is what the containers of a pod have been granted and have: while the
// two differ the greater counts.
func held(pod *corev1.Pod) []corev1.ResourceList {
	var out []corev1.ResourceList
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if r := statuses[i].AllocatedResources; r != nil {
				out = append(out, r)
			}
			if r := statuses[i].Resources; r != nil {
				out = append(out, r.Requests)
			}
		}
	}
	return out
}

// infeasible says that the node has refused a resize for good.
func infeasible(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodResizePending {
			return c.Reason == corev1.PodReasonInfeasible
		}
	}
	return false
}

// assume counts a pod on the node that it is about to be bound to.
func (c *cluster) assume(p *podInfo, n *nodeInfo) {
	n.put(p)
	c.pods[p.key] = &placed{podInfo: p, node: n, assumed: true}
}

// removePod counts a pod out and returns the node that has got room by it.
func (c *cluster) removePod(key schema.Key) *nodeInfo {
	have := c.pods[key]
	if have == nil {
		return nil
	}
	delete(c.pods, key)
	have.node.take(have.podInfo)
	c.dropEmpty(have.node)
	return have.node
}

// assumed returns an assumed pod.
func (c *cluster) assumed(key schema.Key) *placed {
	if p := c.pods[key]; p != nil && p.assumed {
		return p
	}
	return nil
}
