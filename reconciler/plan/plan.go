package plan

import (
	"cmp"
	"iter"
	"slices"
	"time"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Action is what happens to an object.
type Action string

// The actions of an Op.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
	// Replace deletes the object, so that it is made anew as Git declares it
	// as soon as it is gone.
	Replace Action = "replace"
)

// Op is what happens to one object.
type Op struct {
	Action Action
	render.Head
	// Diffs are the fields that change, for Update and Replace. None: the
	// object is as declared, and Git takes over its fields.
	Diffs []Diff
	// Object is what Git declares as the Go type, with the defaults of the
	// kind; Fields is the JSON of the manifest. Both nil for Delete.
	Object schema.Object
	Fields []byte
	// Whole says that Object is the live object without what others have added,
	// and is written as a whole; Fields is nil then.
	Whole bool
}

// Diff is one field that changes. Old and New are JSON; "" where there is no
// value.
type Diff struct {
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// Consequence is something that follows from an op and that its author may not
// expect.
type Consequence struct {
	Object string `json:"object"`
	// Kind is Restart, Reboot, Replace, DataLoss, NamespaceDelete, Kept (it stays
	// although Git does not declare it any more), Shadowed (another repository
	// declares it with a higher priority), Moved (taken over from another), Adopted
	// (taken over from somebody who is not Git) or TakesAlong (Kubernetes deletes
	// others with it).
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Plan is what a commit does to the cluster.
type Plan struct {
	// Ops are in the order in which they enter the store: what others need
	// first, deletions last and in the reverse order.
	Ops []Op
	// Declared is how many objects the commit declares, Unchanged how many of
	// them are already as declared, Shadowed how many another repository keeps.
	Declared, Unchanged, Shadowed int
	// Inventories are to be written in the same transaction.
	Inventories  []InventoryOp
	Consequences []Consequence
	// Elsewhere are the objects of other repositories that declared ones depend
	// on, by name.
	Elsewhere map[string]render.Ref
	// Undeclared is what others have set on each object that was compared, beside
	// what Git declares; none where nobody has.
	Undeclared map[render.Ref][]Undeclared `json:"-"`
	// Findings are why the plan must not be applied; Warnings hold nothing up.
	Findings, Warnings []v1alpha1.Finding
}

// InventoryOp is the write of one inventory. Object is nil for a deletion;
// ResourceVersion is that of the inventory that was read, "0" for none.
type InventoryOp struct {
	Name            string
	Object          *v1alpha1.Inventory
	ResourceVersion string
}

// note remembers what others have set on an object.
func (p *Plan) note(ref render.Ref, found []Undeclared) {
	if p.Undeclared == nil {
		p.Undeclared = map[render.Ref][]Undeclared{}
	}
	p.Undeclared[ref] = found
}

// Empty says whether nothing is to be done.
func (p *Plan) Empty() bool { return len(p.Ops) == 0 && len(p.Inventories) == 0 }

// Count returns how many ops have the action.
func (p *Plan) Count(a Action) int {
	n := 0
	for i := range p.Ops {
		if p.Ops[i].Action == a {
			n++
		}
	}
	return n
}

// Live is the cluster as it is. client.Cache is one.
type Live interface {
	Get(r *schema.Resource, key schema.Key) (schema.Object, bool)
}

// Kinds finds the resource of a kind that is not built in; nil when there is
// none.
type Kinds func(kschema.GroupVersionKind) *schema.Resource

// Desired is one declared object. Fields may be nil for one of a unit that is
// not Stale.
type Desired struct {
	render.Head
	Fields []byte
}

// Unit is what one unit of the commit declares.
type Unit struct {
	Path    string
	Hash    string
	Objects []Desired
	// Broken says that the unit has findings and is left out: what it declared
	// before stays as it is. While a unit is, nothing is deleted: an object may
	// have moved into it.
	Broken bool
}

// Rest is what a plan has to know of units that it need not look at: they are
// as their inventories say, all their objects are live, and nobody else
// declares any of those.
type Rest struct {
	// Objects is how many they declare.
	Objects int
	// Declares says whether they declare an object, Named whether one of that
	// name.
	Declares func(render.Ref) bool
	Named    func(name string) bool
	// Dependent are the objects among them that depend on others.
	Dependent []*render.Head
	// Heads are the objects that they declare. It is gone through only where the
	// commit deletes what others live in; nil: they declare none.
	Heads iter.Seq[*render.Head]
}

// Input is everything that a plan depends on.
type Input struct {
	Repository string
	// SHA, Author and Time of the commit, for the inventories.
	SHA, Author string
	Time        time.Time

	Units []Unit
	// Rest stands for the units of the commit that are not among Units; nil:
	// there are none. Of a unit that was declared and is not any more there is
	// one without objects among Units then.
	Rest *Rest
	// Inventories are those of all repositories; Before is the same, if it is
	// known already.
	Inventories []*v1alpha1.Inventory
	Before      *Inventories
	Live        Live
	// Kinds finds the kinds that are not built in.
	Kinds Kinds
	// Rules are what custom resources are held against: the definition of the
	// commit, else that of the cluster. nil: the kind's own.
	Rules func(*schema.Resource) schema.Custom
	// Unreadable says of which kinds the live objects cannot be read; these are
	// compared by the hash in the inventory. nil: all can.
	Unreadable func(*schema.Resource) bool

	// Priorities of the repositories; those that are not named have 0.
	Priorities map[string]int32
	// Ignore are fields and objects whose difference is left alone.
	Ignore []v1alpha1.IgnoreRule
	// TakeBack takes away what others have added to declared objects.
	TakeBack bool
	// KeepUndeclared leaves what Git does not declare any more in the cluster.
	KeepUndeclared bool

	// AllowDeletes lifts the deletion budget.
	AllowDeletes bool
	// MaxDeletes and MaxDeletePercent are the budget: a commit may delete so
	// many objects, or so great a part of all that the repository declared.
	// nil takes 50 objects and 20 %.
	MaxDeletes, MaxDeletePercent *int32
}

// freeDeletes is how many objects a commit may delete whatever part of a small
// repository they are.
const freeDeletes = 10

// Compute decides what the commit does to the cluster.
func Compute(in Input) *Plan {
	c := newComputation(in)
	if in.Rest != nil {
		c.plan.Declared, c.plan.Unchanged = in.Rest.Objects, in.Rest.Objects
	}
	for i := range in.Units {
		u := &in.Units[i]
		if u.Broken {
			continue
		}
		for j := range u.Objects {
			c.object(&u.Objects[j])
		}
		c.inventory(u)
	}
	c.dependencies()
	c.prune()
	c.inUse()
	c.along()
	c.reboots()
	c.guard()
	slices.SortStableFunc(c.plan.Ops, order)
	slices.SortStableFunc(c.plan.Consequences, func(a, b Consequence) int { return cmp.Compare(a.Object, b.Object) })
	return c.plan
}

// order puts what others need first, and deletions last in reverse.
func order(a, b Op) int {
	if del := a.Action == Delete; del != (b.Action == Delete) {
		if del {
			return 1
		}
		return -1
	} else if del {
		a, b = b, a
	}
	return cmp.Or(cmp.Compare(rank(a.Resource), rank(b.Resource)), cmp.Compare(a.Resource.Kind, b.Resource.Kind),
		cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
}

// rank is the place of a kind in a commit. Everything enters at one revision;
// the order is that of the events, so that a controller that sees a Deployment
// has seen its namespace, its account and its configuration.
func rank(r *schema.Resource) int {
	switch r.Kind {
	case "Namespace":
		return 0
	case "Cluster", "Repository", "CustomResourceDefinition", "StorageClass", "PriorityClass", "IngressClass":
		return 1
	case "ServiceAccount", "Role", "ClusterRole":
		return 2
	case "RoleBinding", "ClusterRoleBinding", "ResourceQuota", "LimitRange", "NetworkPolicy":
		return 3
	case "ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim":
		return 4
	case "Service", "Endpoints", "EndpointSlice":
		return 5
	case "Pod", "ReplicationController", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob":
		return 7
	case "Ingress", "HorizontalPodAutoscaler":
		return 8
	}
	return 6
}
