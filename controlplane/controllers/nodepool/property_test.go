package nodepool

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// simulation is a cluster whose agents do what annotations say, and whose
// control plane dies between any two writes.
type simulation struct {
	t    *testing.T
	rng  *rand.Rand
	now  time.Time
	seed uint64

	pools  []*v1alpha1.NodePool
	images []*v1alpha1.NodeImage
	nodes  []*corev1.Node
	pods   map[string][]*corev1.Pod
	agents map[string]*agent

	// bad are images that do not boot, or cannot be staged, on any node; lost
	// swallow the node.
	bad, lost map[string]bool
	crashes   bool // nodes go away and come back by themselves
	quiet     int  // rounds in which nothing was to be done
	log       []string
}

// agent is the agent of one node.
type agent struct {
	arguments string // joined, of what runs
	staged    string
	goes      time.Time // until when it boots, or is away
	boots     bool
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	rng := rand.New(rand.NewPCG(seed, 7))
	s := &simulation{t: t, rng: rng, now: noon, seed: seed, pods: map[string][]*corev1.Pod{}, agents: map[string]*agent{}, bad: map[string]bool{}, lost: map[string]bool{}}
	for v := range 4 {
		s.images = append(s.images, anImage(fmt.Sprintf("v%d", v), fmt.Sprintf("1.%d.0", v)))
	}
	for i := range 1 + rng.IntN(3) {
		name := string(rune('a' + i))
		p := aPool(name, "v1")
		p.Spec.Priority = int32(rng.IntN(3))
		p.Spec.Selector.MatchLabels = map[string]string{"pool": name}
		if rng.IntN(2) == 0 {
			n := intstr.FromInt32(int32(1 + rng.IntN(3)))
			if rng.IntN(3) == 0 {
				n = intstr.FromString(fmt.Sprintf("%d%%", 1+rng.IntN(100)))
			}
			p.Spec.Update.MaxUnavailable = &n
		}
		if rng.IntN(3) == 0 {
			p.Spec.KernelArguments = []string{"quiet"}
		}
		if rng.IntN(3) == 0 {
			p.Spec.RebootWindow = &v1alpha1.RebootWindow{Start: "13:00", Duration: metav1.Duration{Duration: 4 * time.Hour}, Timezone: "UTC"}
		}
		s.pools = append(s.pools, p)
	}
	for i := range 1 + rng.IntN(12) {
		n := aNode(fmt.Sprintf("n%02d", i), fmt.Sprintf("1.%d.0", rng.IntN(2)))
		if rng.IntN(10) == 0 {
			n = aNode(n.Name, "") // not made from an image
		}
		n.Labels["pool"] = string(rune('a' + rng.IntN(len(s.pools))))
		s.nodes, s.agents[n.Name] = append(s.nodes, n), &agent{}
		for j := range rng.IntN(4) {
			s.pods[n.Name] = append(s.pods[n.Name], aPod(fmt.Sprintf("%s-%d", n.Name, j), n.Name))
		}
	}
	// One, or enough for a quorum: of two none may be away, which has its own test.
	servers := []int{0, 1, 3, 5}[rng.IntN(4)]
	for i := range min(servers, len(s.nodes)) {
		if servers > len(s.nodes) {
			break
		}
		server(s.nodes[i])
	}
	return s
}

func (s *simulation) node(name string) *corev1.Node {
	return s.nodes[slices.IndexFunc(s.nodes, func(n *corev1.Node) bool { return n.Name == name })]
}

func (s *simulation) errorf(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("seed %d at %s: %s\n%v", s.seed, s.now.Format("15:04:05"), fmt.Sprintf(format, args...), s.log[max(len(s.log)-25, 0):])
}

// round is one reconcile, of which maybe only a part is written.
func (s *simulation) round() {
	w := world{pools: s.pools, images: s.images, nodes: slices.Clone(s.nodes), pods: func(n string) []*corev1.Pod { return s.pods[n] }}
	p := decide(w, s.now)
	for i, image := range s.images {
		next := image.DeepCopy()
		next.Status = p.images[image.Name]
		s.images[i] = next
	}
	known := s.stopped() // those that this plan has found among them
	s.quiet++
	if slices.ContainsFunc(p.steps, func(st step) bool { return st.action != wait }) {
		s.quiet = 0
	}
	seen := map[string]bool{}
	for _, st := range p.steps {
		if seen[st.node] {
			s.errorf("two steps for %s", st.node)
		}
		seen[st.node] = true
		if s.rng.IntN(8) == 0 {
			continue // not written
		}
		s.check(st, known)
		s.act(st)
		if st.action != wait {
			s.log = append(s.log, "\n"+s.now.Format("15:04:05 ")+st.String())
		}
	}
	if s.rng.IntN(8) > 0 {
		for i, pool := range s.pools {
			next := pool.DeepCopy()
			next.Status = p.pools[pool.Name]
			s.pools[i] = next
		}
	}
}

// stopped are the pools whose image is known to have failed.
func (s *simulation) stopped() map[string]bool {
	out := map[string]bool{}
	for _, p := range s.pools {
		for _, i := range s.images {
			if i.Name == p.Spec.Image && i.Bad(v1alpha1.KernelArguments(p.Spec.KernelArguments)) != nil {
				out[p.Name] = true
			}
		}
	}
	return out
}

// behind says whether a node of a pool is to be updated.
func (s *simulation) behind(p *v1alpha1.NodePool) bool {
	i := s.images[slices.IndexFunc(s.images, func(i *v1alpha1.NodeImage) bool { return i.Name == p.Spec.Image })]
	return slices.ContainsFunc(s.nodes, func(n *corev1.Node) bool {
		m := read(n)
		return v1alpha1.NewMembership(s.pools).PoolOf(n.Labels) == p && m.ours && !m.runs(i, v1alpha1.KernelArguments(p.Spec.KernelArguments))
	})
}

// check holds a step against what the controller promises, before it is taken.
func (s *simulation) check(st step, known map[string]bool) {
	n := s.node(st.node)
	if n.Annotations[v1alpha1.ImageAnnotation] == "" && st.action != wait {
		s.errorf("%s, which was not made from an image", st)
	}
	pool := v1alpha1.NewMembership(s.pools).PoolOf(n.Labels)
	if known[pool.Name] && (st.action == stage || st.action == cordon || st.action == evict || st.action == reboot) {
		s.errorf("%s, after %s failed", st, pool.Spec.Image)
	}
	if st.action != cordon && st.action != reboot {
		return
	}
	if isOpen, _, _ := open(pool.Spec.RebootWindow, s.now); !isOpen {
		s.errorf("%s, outside the window", st)
	}
	if pool.Spec.Update.Paused && st.action == cordon && n.Annotations[v1alpha1.UpdateStepAnnotation] == "" {
		s.errorf("%s, in a paused pool", st)
	}
	membership := v1alpha1.NewMembership(s.pools)
	away, size, servers, serversAway := 0, 0, 0, 0
	for _, o := range s.nodes {
		isAway := o.Name == n.Name || !isReady(o) || o.Annotations[v1alpha1.UpdateStepAnnotation] != "" && (st.action == cordon || o.Annotations[v1alpha1.RebootAnnotation] != "")
		if membership.PoolOf(o.Labels) == pool {
			size++
			if isAway {
				away++
			}
		}
		if _, is := o.Labels[controlPlaneLabel]; is {
			servers++
			if isAway {
				serversAway++
			}
		}
	}
	budget := 1
	if limit := pool.Spec.Update.MaxUnavailable; limit != nil {
		budget, _ = intstr.GetScaledValueFromIntOrPercent(limit, size, false)
		budget = max(budget, 1)
	}
	_, isServer := n.Labels[controlPlaneLabel]
	if away > budget && (!isServer || st.action == cordon) {
		s.errorf("%s: %d of %d are away, %d may be", st, away, size, budget)
	}
	if isServer && servers > 1 && serversAway > (servers-1)/2 || isServer && serversAway > 1 {
		s.errorf("%s: %d of %d servers are away", st, serversAway, servers)
	}
	if st.action == reboot {
		if pods := s.pods[n.Name]; len(pods) > 0 {
			s.errorf("%s: %d pods are on it", st, len(pods))
		}
		if !n.Spec.Unschedulable {
			s.errorf("%s: it is not cordoned", st)
		}
	}
}

func (s *simulation) act(st step) {
	if st.action == evict {
		for _, p := range st.pods {
			if s.rng.IntN(2) == 0 {
				s.pods[st.node] = slices.DeleteFunc(slices.Clone(s.pods[st.node]), func(o *corev1.Pod) bool { return o == p })
			}
		}
		return
	}
	if st.action == wait || st.action == fail {
		return
	}
	i := slices.IndexFunc(s.nodes, func(n *corev1.Node) bool { return n.Name == st.node })
	s.nodes[i] = st.apply(s.nodes[i])
}

// agentsWork takes every agent one step on.
func (s *simulation) agentsWork() {
	for i := range s.nodes {
		n := s.nodes[i].DeepCopy()
		s.agentWorks(n, s.agents[n.Name])
		s.nodes[i] = n
	}
}

func (s *simulation) agentWorks(n *corev1.Node, a *agent) {
	say := func(phase v1alpha1.UpdatePhase) { n.Annotations[v1alpha1.UpdatePhaseAnnotation] = string(phase) }
	if !a.goes.IsZero() {
		if s.now.Before(a.goes) {
			return
		}
		a.goes = time.Time{}
		setReady(n, true)
		if a.boots {
			a.boots = false
			s.boot(n, a)
		}
		return
	}
	if s.crashes && s.rng.IntN(200) == 0 {
		a.goes = s.now.Add(time.Duration(s.rng.IntN(600)) * time.Second)
		setReady(n, false)
		return
	}
	if n.Annotations[v1alpha1.ImageAnnotation] == "" || s.rng.IntN(3) == 0 {
		return
	}
	desired, phase := n.Annotations[v1alpha1.DesiredImageAnnotation], v1alpha1.UpdatePhase(n.Annotations[v1alpha1.UpdatePhaseAnnotation])
	switch {
	case phase == v1alpha1.UpdateTrying:
		say(v1alpha1.UpdateIdle)
	case desired == "":
		a.staged = ""
		delete(n.Annotations, v1alpha1.UpdateFailedAnnotation)
		say(v1alpha1.UpdateIdle)
	case n.Annotations[v1alpha1.UpdateFailedAnnotation] == desired:
	case a.staged != desired:
		if s.bad[desired] && s.rng.IntN(4) == 0 {
			n.Annotations[v1alpha1.UpdateFailedAnnotation] = desired
			say(v1alpha1.UpdateFailed)
			return
		}
		a.staged = desired
		say(v1alpha1.UpdateWriting)
	case n.Annotations[v1alpha1.RebootAnnotation] == desired && phase == v1alpha1.UpdateStaged:
		say(v1alpha1.UpdateRebooting)
		setReady(n, false)
		a.boots, a.goes = true, s.now.Add(time.Duration(20+s.rng.IntN(60))*time.Second)
		if s.lost[desired] {
			a.goes = s.now.Add(2 * time.Hour)
		}
	case phase == v1alpha1.UpdateWriting:
		say(v1alpha1.UpdateStaged)
	}
}

// boot brings a node up with what it has staged, or with what it had.
func (s *simulation) boot(n *corev1.Node, a *agent) {
	if s.bad[a.staged] || s.lost[a.staged] {
		n.Annotations[v1alpha1.UpdatePhaseAnnotation] = string(v1alpha1.UpdateFailed)
		n.Annotations[v1alpha1.UpdateFailedAnnotation] = a.staged
		return
	}
	i := s.images[slices.IndexFunc(s.images, func(i *v1alpha1.NodeImage) bool { return i.Name == a.staged })]
	n.Annotations[v1alpha1.ImageAnnotation] = i.Spec.Version
	a.arguments = n.Annotations[v1alpha1.DesiredKernelArgumentsAnnotation]
	n.Annotations[v1alpha1.KernelArgumentsAnnotation] = v1alpha1.KernelArgumentsHash(a.arguments)
	n.Annotations[v1alpha1.UpdatePhaseAnnotation] = string(v1alpha1.UpdateTrying)
}

// run lets hours pass.
func (s *simulation) run(hours int, each func()) {
	s.quiet = 0
	for end := s.now.Add(time.Duration(hours) * time.Hour); s.now.Before(end); {
		s.now = s.now.Add(10 * time.Second)
		if s.quiet > 20 && each == nil {
			s.now = s.now.Add(2 * time.Minute) // nothing but time changes anything
		}
		s.round()
		s.agentsWork()
		for _, n := range s.nodes { // pods come back to nodes that take them
			if !n.Spec.Unschedulable && len(s.pods[n.Name]) == 0 && s.rng.IntN(50) == 0 {
				s.pods[n.Name] = []*corev1.Pod{aPod(n.Name+"-x", n.Name)}
			}
		}
		if each != nil {
			each()
		}
		if s.t.Failed() {
			return
		}
	}
}

// clean wants every node to run what its pool says and to serve, and nothing
// to be left of what was done with it.
func (s *simulation) clean() {
	s.t.Helper()
	for _, n := range s.nodes {
		m, pool := read(n), v1alpha1.NewMembership(s.pools).PoolOf(n.Labels)
		i := s.images[slices.IndexFunc(s.images, func(i *v1alpha1.NodeImage) bool { return i.Name == pool.Spec.Image })]
		if m.ours && !m.runs(i, v1alpha1.KernelArguments(pool.Spec.KernelArguments)) {
			s.errorf("%s of pool %s runs %s, not %s: %q", n.Name, pool.Name, m.version, i.Spec.Version, pool.Status.Message)
		}
		s.untouched(n)
	}
	for _, p := range s.pools {
		if c := condition(p.Status, "Ready"); c.Status != "True" {
			s.errorf("pool %s: %s %s", p.Name, c.Reason, c.Message)
		}
	}
}

func (s *simulation) untouched(n *corev1.Node) {
	s.t.Helper()
	for _, key := range []string{v1alpha1.DesiredImageAnnotation, v1alpha1.DesiredKernelArgumentsAnnotation, v1alpha1.RebootAnnotation, v1alpha1.CordonedByAnnotation, v1alpha1.UpdateStepAnnotation, v1alpha1.UpdateFailedAnnotation} {
		if v, ok := n.Annotations[key]; ok {
			s.errorf("%s has %s=%s at the end", n.Name, key, v)
		}
	}
	if n.Spec.Unschedulable || !isReady(n) {
		s.errorf("%s: unschedulable %v, ready %v at the end", n.Name, n.Spec.Unschedulable, isReady(n))
	}
}

// eachSeed runs a property over clusters; WRIT_CLUSTERS over more of them.
func eachSeed(t *testing.T, run func(s *simulation)) {
	n := 10
	if testing.Short() {
		n = 3
	}
	if v := os.Getenv("WRIT_CLUSTERS"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range n {
		s := newSimulation(t, uint64(seed))
		if run(s); t.Failed() {
			return
		}
	}
}

// However the control plane dies in between, and whatever the window: without
// failures every node comes to run what its pool says, and is let back.
func TestEveryRunEndsUpdated(t *testing.T) {
	eachSeed(t, func(s *simulation) {
		s.run(30, nil)
		s.clean()
	})
}

// Nodes that go away by themselves take places; the roll goes on when they
// are back.
func TestNodesThatCrash(t *testing.T) {
	eachSeed(t, func(s *simulation) {
		s.crashes = true
		s.run(12, nil)
		s.crashes = false
		// A node that was away for long on its way is called lost; somebody looks,
		// and says so.
		for _, i := range s.images {
			i.Annotations = map[string]string{v1alpha1.RetryAnnotation: "looked"}
		}
		s.run(30, nil)
		s.clean()
	})
}

// Git changes its mind at any moment, and in the end all is as it last said.
func TestGitChangesItsMind(t *testing.T) {
	eachSeed(t, func(s *simulation) {
		s.run(3, func() {
			if s.rng.IntN(40) > 0 {
				return
			}
			i := s.rng.IntN(len(s.pools))
			p := s.pools[i].DeepCopy()
			switch s.rng.IntN(4) {
			case 0, 1:
				p.Spec.Image = s.images[s.rng.IntN(len(s.images))].Name
			case 2:
				p.Spec.Update.Paused = !p.Spec.Update.Paused
			case 3:
				p.Spec.KernelArguments = [][]string{nil, {"quiet"}, {"a=b", "c"}}[s.rng.IntN(3)]
			}
			s.pools[i] = p
		})
		for i := range s.pools {
			s.pools[i] = s.pools[i].DeepCopy()
			s.pools[i].Spec.Update.Paused = false
		}
		s.run(30, nil)
		s.clean()
	})
}

// An image that fails is remembered, reaches no further node, and the way back
// is a commit.
func TestImageThatFails(t *testing.T) {
	eachSeed(t, func(s *simulation) {
		swallows := s.rng.IntN(2) == 0
		if swallows {
			s.lost["v1"] = true
		} else {
			s.bad["v1"] = true
		}
		s.run(30, nil)
		for _, p := range s.pools {
			if stopped := s.stopped()[p.Name]; s.behind(p) && !stopped {
				s.errorf("pool %s is not stopped", p.Name)
			}
			if d := condition(p.Status, "Degraded"); s.behind(p) != (d.Status == "True") {
				s.errorf("pool %s: to do %v, degraded %s: %s", p.Name, s.behind(p), d.Status, d.Message)
			}
		}
		for i := range s.pools {
			s.pools[i] = s.pools[i].DeepCopy()
			s.pools[i].Spec.Image = "v2"
		}
		s.run(40, nil)
		s.clean()
	})
}
