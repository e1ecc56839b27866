package nodepool

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// The times that nobody sets.
const (
	// comeBack is how long a node may take from the order to reboot until it is
	// ready, and how long one that has come up may be unwell.
	comeBack = 15 * time.Minute
	// evictAgain is how long to wait after evictions, as kubectl drain does.
	evictAgain = 5 * time.Second
	// lookAgain is how long to wait for what no event tells of: the pods of nodes
	// that nobody has touched yet.
	lookAgain = 30 * time.Second
	// stageAhead is how many nodes of a pool fetch an image at a time.
	stageAhead = 10
	// most is how many failures and nodes a status lists.
	most = 20
)

// The defaults of a pool's update.
const (
	defaultDrainTimeout = 10 * time.Minute
	defaultSettle       = 30 * time.Second
)

// world is what a plan is made from.
type world struct {
	pools   []*v1alpha1.NodePool
	images  []*v1alpha1.NodeImage
	nodes   []*corev1.Node
	budgets []*policyv1.PodDisruptionBudget
	// pods are those of one node, at the same moment.
	pods func(node string) []*corev1.Pod
}

// action is what is to be done with a node.
type action string

// The actions.
const (
	stage    action = "Stage"    // let it fetch the image
	forget   action = "Forget"   // take back the order to
	cordon   action = "Cordon"   // begin: no new pods
	evict    action = "Evict"    // ask pods to leave
	reboot   action = "Reboot"   // boot into the image
	uncordon action = "Uncordon" // end: it has arrived, or is released
	mark     action = "Mark"     // note another step, or none
	wait     action = "Wait"     // for what why says
	fail     action = "Fail"     // the image failed here; the node is left as it is
)

// step is the next thing to be done with one node.
type step struct {
	action action
	node   string
	// image and arguments to stage or to reboot into.
	image, arguments string
	pods             []*corev1.Pod // to evict
	next             string        // note of the step that follows; "" none
	why              string        // for people
}

func (s step) String() string {
	text := string(s.action) + " " + s.node
	for _, part := range []string{s.image, s.next, s.why} {
		if part != "" {
			text += ", " + part
		}
	}
	return text
}

// plan is what to do next, and what to say of it.
type plan struct {
	steps  []step // in the order of pools and nodes, at most one for a node
	pools  map[string]v1alpha1.NodePoolStatus
	images map[string]v1alpha1.NodeImageStatus
	// again is when time alone changes the plan; 0 for never.
	again time.Duration
}

// planning is the state of one plan.
type planning struct {
	world
	now        time.Time
	image      map[string]*v1alpha1.NodeImage // with the failures that this plan finds
	stored     map[string]*v1alpha1.NodeImage // as they are
	machines   []*machine
	servers    []*machine // those of the control plane, of every pool and none
	groups     []*group
	loose      []*machine // of no pool
	allowances *allowances
	out        plan
}

// group is a pool with its nodes.
type group struct {
	pool      *v1alpha1.NodePool
	image     *v1alpha1.NodeImage // nil: none is named, or there is none
	arguments string
	machines  []*machine

	stopped  halt     // nothing goes on
	held     halt     // nothing begins
	shut     string   // why no node may be away now, begun or not
	waiting  []string // what nodes wait for
	overdue  []string // drains that take too long
	staging  int
	unsuited []string
	messages map[string]string // of nodes in work
}

// halt is why a pool does not go on.
type halt struct {
	reason, message string
}

// decide makes the plan. It asks nobody and changes nothing that it was given.
func decide(w world, now time.Time) plan {
	p := &planning{
		world: w, now: now, image: map[string]*v1alpha1.NodeImage{}, stored: map[string]*v1alpha1.NodeImage{}, allowances: newAllowances(w.budgets),
		out: plan{pools: map[string]v1alpha1.NodePoolStatus{}, images: map[string]v1alpha1.NodeImageStatus{}},
	}
	p.sort()
	p.failures()
	for _, m := range p.loose {
		p.leave(m)
	}
	for _, g := range p.groups {
		p.prepare(g)
		for _, m := range g.machines {
			if m.step != "" {
				p.inWork(g, m)
			} else {
				p.idle(g, m)
			}
		}
	}
	// What may begin depends on all that is in work, in every pool.
	for _, g := range p.groups {
		p.begin(g)
	}
	for _, g := range p.groups {
		p.out.pools[g.pool.Name] = p.status(g)
	}
	for name, i := range p.image {
		p.out.images[name] = imageStatus(i, now)
	}
	return p.out
}

// sort reads the nodes and gives each to its pool.
func (p *planning) sort() {
	for _, i := range p.images {
		p.stored[i.Name], p.image[i.Name] = i, retried(i)
	}
	groups := map[string]*group{}
	for _, pool := range p.world.pools {
		groups[pool.Name] = &group{pool: pool, arguments: v1alpha1.KernelArguments(pool.Spec.KernelArguments), messages: map[string]string{}}
	}
	membership := v1alpha1.NewMembership(p.world.pools)
	for _, n := range p.nodes {
		m := read(n)
		p.machines = append(p.machines, m)
		if m.controlPlane {
			p.servers = append(p.servers, m)
		}
		if pool := membership.PoolOf(n.Labels); pool != nil {
			g := groups[pool.Name]
			g.machines = append(g.machines, m)
		} else {
			p.loose = append(p.loose, m)
		}
	}
	// Workers first: a mistake shows there before it reaches the control plane.
	byName := func(a, b *machine) int {
		if a.controlPlane != b.controlPlane {
			if b.controlPlane {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	}
	for _, g := range groups {
		slices.SortFunc(g.machines, byName)
	}
	p.groups = slices.SortedFunc(maps.Values(groups), func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.pool.Spec.Priority, a.pool.Spec.Priority), cmp.Compare(a.pool.Name, b.pool.Name))
	})
}

// prepare says what the pool wants, and what stops it.
func (p *planning) prepare(g *group) {
	name := g.pool.Spec.Image
	if name == "" {
		return
	}
	i, ok := p.image[name]
	if !ok || i.DeletionTimestamp != nil {
		g.stopped = halt{"ImageNotFound", fmt.Sprintf("there is no NodeImage %s: declare it, or name another", name)}
		return
	}
	g.image = i
	if f := i.Bad(g.arguments); f != nil {
		g.stopped = failed(i, f)
	}
	isOpen, next, err := open(g.pool.Spec.RebootWindow, p.now)
	if !next.IsZero() {
		p.wake(next.Sub(p.now))
	}
	switch {
	case err != nil:
		g.held = halt{"InvalidWindow", fmt.Sprintf("the reboot window cannot be read: %v", err)}
		g.shut = g.held.message
	case !isOpen:
		g.held = halt{"OutsideWindow", "nodes reboot when the window opens, " + next.UTC().Format("Mon 2006-01-02 15:04 MST")}
		g.shut = g.held.message
	}
	if g.pool.Spec.Update.Paused {
		g.held = halt{"Paused", "the pool is paused"}
	}
}

// do adds a step.
func (p *planning) do(s step) { p.out.steps = append(p.out.steps, s) }

// wake asks for another look after d.
func (p *planning) wake(d time.Duration) {
	d = max(d, time.Second)
	if p.out.again == 0 || d < p.out.again {
		p.out.again = d
	}
}

// until asks for another look when a time that began is over, and says whether
// it is.
func (p *planning) until(since time.Time, length time.Duration) bool {
	if left := since.Add(length).Sub(p.now); left > 0 {
		p.wake(left)
		return false
	}
	return true
}
