package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// lister is a Live that can say which objects of a kind there are.
type lister interface {
	List(r *schema.Resource, namespace string) []schema.Object
}

// fleet is what is said of nodes.
type fleet struct {
	pools  map[string]*v1alpha1.NodePool
	images map[string]*v1alpha1.NodeImage
}

// reboots tells which nodes get another operating system. A Live that cannot
// list says nothing of them.
func (c *computation) reboots() {
	touches := func(o Op) bool {
		return o.Resource == schema.ResourceFor[*v1alpha1.NodePool]() || o.Resource == schema.ResourceFor[*v1alpha1.NodeImage]()
	}
	live, ok := c.in.Live.(lister)
	if !ok || !slices.ContainsFunc(c.plan.Ops, touches) {
		return
	}
	before := fleet{map[string]*v1alpha1.NodePool{}, map[string]*v1alpha1.NodeImage{}}
	for _, o := range live.List(schema.ResourceFor[*v1alpha1.NodePool](), "") {
		before.pools[o.GetName()] = o.(*v1alpha1.NodePool)
	}
	for _, o := range live.List(schema.ResourceFor[*v1alpha1.NodeImage](), "") {
		before.images[o.GetName()] = o.(*v1alpha1.NodeImage)
	}
	var nodes []*corev1.Node
	for _, o := range live.List(schema.ResourceFor[*corev1.Node](), "") {
		nodes = append(nodes, o.(*corev1.Node))
	}
	c.plan.Consequences = append(c.plan.Consequences, reboots(nodes, before, before.with(c.plan.Ops))...)
}

// with is the fleet after some ops.
func (f fleet) with(ops []Op) fleet {
	next := fleet{maps.Clone(f.pools), maps.Clone(f.images)}
	for i := range ops {
		op := &ops[i]
		switch o := op.Object.(type) {
		case *v1alpha1.NodePool:
			next.pools[o.Name] = o
		case *v1alpha1.NodeImage:
			next.images[o.Name] = o
			if was := f.images[o.Name]; was != nil && op.Action == Update {
				o = o.DeepCopy()
				if o.Annotations[v1alpha1.RetryAnnotation] == was.Status.Retried {
					o.Status = was.Status // it remembers where it failed
				}
				next.images[o.Name] = o
			}
		case nil:
			switch {
			case op.Action != Delete:
			case op.Resource == schema.ResourceFor[*v1alpha1.NodePool]():
				delete(next.pools, op.Key.Name)
			case op.Resource == schema.ResourceFor[*v1alpha1.NodeImage]():
				delete(next.images, op.Key.Name)
			}
		}
	}
	return next
}

// members says which node is of which pool.
func (f fleet) members() v1alpha1.Membership {
	return v1alpha1.NewMembership(slices.Collect(maps.Values(f.pools)))
}

// target is what a node is to run; ok is false where nobody says.
func (f fleet) target(m v1alpha1.Membership, n *corev1.Node) (pool *v1alpha1.NodePool, i *v1alpha1.NodeImage, arguments string, ok bool) {
	pool = m.PoolOf(n.Labels)
	if pool == nil || f.images[pool.Spec.Image] == nil {
		return pool, nil, "", false
	}
	return pool, f.images[pool.Spec.Image], v1alpha1.KernelArguments(pool.Spec.KernelArguments), true
}

// update is what a pool does to its nodes.
type update struct {
	nodes, servers int
	fetch          bool // another version, not just other kernel arguments
}

// reboots says of each pool how many nodes a commit makes it update. Nodes that
// the pool would have updated anyway are not the commit's, and those that were
// not made from an image are left alone.
func reboots(nodes []*corev1.Node, before, after fleet) []Consequence {
	updates, servers := map[string]*update{}, 0
	was, is := before.members(), after.members()
	for _, n := range nodes {
		_, server := n.Labels["node-role.kubernetes.io/control-plane"]
		if server {
			servers++
		}
		pool, i, arguments, ok := after.target(is, n)
		version, hash := n.Annotations[v1alpha1.ImageAnnotation], n.Annotations[v1alpha1.KernelArgumentsAnnotation]
		if !ok || version == "" || version == i.Spec.Version && hash == v1alpha1.KernelArgumentsHash(arguments) {
			continue
		}
		if _, had, hadArguments, ok := before.target(was, n); ok && had.Spec.Version == i.Spec.Version && hadArguments == arguments && (had.Bad(arguments) == nil) == (i.Bad(arguments) == nil) {
			continue
		}
		u := updates[pool.Name]
		if u == nil {
			u = &update{}
			updates[pool.Name] = u
		}
		u.nodes++
		u.fetch = u.fetch || version != i.Spec.Version
		if server {
			u.servers++
		}
	}
	var out []Consequence
	for _, name := range slices.Sorted(maps.Keys(updates)) {
		pool := after.pools[name]
		out = append(out, Consequence{Object: "NodePool/" + name, Kind: "Reboot", Message: updates[name].say(pool, after.images[pool.Spec.Image], servers)})
	}
	return out
}

// say writes what happens to the nodes of a pool.
func (u *update) say(pool *v1alpha1.NodePool, i *v1alpha1.NodeImage, servers int) string {
	if f := i.Bad(v1alpha1.KernelArguments(pool.Spec.KernelArguments)); f != nil {
		return fmt.Sprintf("no node is updated: %s has failed on node %s; annotate it with %s to try it again", i.Name, f.Node, v1alpha1.RetryAnnotation)
	}
	var b strings.Builder
	how, most := "", pool.Spec.Update.MaxUnavailable
	if u.nodes > 1 {
		how = " one after another"
		if most != nil && *most != intstr.FromInt32(1) {
			how = fmt.Sprintf(", at most %s at a time", most)
		}
	}
	switch {
	case u.nodes == 1 && u.fetch:
		fmt.Fprintf(&b, "1 node of pool %s downloads writ %s and reboots", pool.Name, i.Spec.Version)
	case u.nodes == 1:
		fmt.Fprintf(&b, "1 node of pool %s reboots with other kernel arguments", pool.Name)
	case u.fetch:
		fmt.Fprintf(&b, "%d nodes of pool %s download writ %s and reboot%s", u.nodes, pool.Name, i.Spec.Version, how)
	default:
		fmt.Fprintf(&b, "%d nodes of pool %s reboot%s, with other kernel arguments", u.nodes, pool.Name, how)
	}
	switch {
	case pool.Spec.Update.Paused:
		b.WriteString(", once the pool is not paused any more")
	case pool.Spec.RebootWindow != nil:
		b.WriteString(", in its reboot window")
	}
	if u.servers > 0 && servers == 1 {
		b.WriteString("; the API is away while the one control-plane node does")
	}
	return b.String()
}
