package histories

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// snapshot is every object of the cluster, by kind, namespace and name.
type snapshot map[string]schema.Object

// kinds are those that the server serves, one version of each.
func (w *world) kinds() []*schema.Resource {
	out := slices.DeleteFunc(slices.Clone(schema.Resources), func(r *schema.Resource) bool { return r.Storage != nil })
	for _, r := range w.catalog.Load().Custom() {
		if !slices.ContainsFunc(out, func(o *schema.Resource) bool { return o.Kind == r.Kind && o.Group == r.Group }) {
			out = append(out, r)
		}
	}
	return out
}

// hidden are kinds that nobody's commit is about.
func hidden(r *schema.Resource) bool {
	return r.Kind == "Event" || r.Kind == "Lease" || r.Group == v1alpha1.GroupVersion.Group
}

func (w *world) snapshot() snapshot {
	s := snapshot{}
	for _, r := range w.kinds() {
		if hidden(r) {
			continue
		}
		for _, o := range w.reg.Cache().List(r, "") {
			s[name(r, o)] = o
		}
	}
	return s
}

func name(r *schema.Resource, o schema.Object) string {
	return render.Ref{Resource: r, Key: schema.KeyOf(o)}.String()
}

// note keeps what happens at each revision of the store.
func (w *world) note(r *schema.Resource) {
	known, ending := false, map[string]bool{}
	w.must(nil, w.reg.Cache().Subscribe(w.ctx, r, func(ev client.Event) {
		rv, err := strconv.ParseUint(ev.Object.GetResourceVersion(), 10, 64)
		if err != nil {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if !known {
			return
		}
		main := rv >> 20
		if w.happened[main] == nil {
			w.happened[main] = map[string]happening{}
		}
		n := name(r, ev.Object)
		w.happened[main][n] = happening{ev.Type, ev.Object, ending[n]}
		ending[n] = ev.Type != client.Deleted && ev.Object.GetDeletionTimestamp() != nil
	}))
	w.mu.Lock()
	known = true
	w.mu.Unlock()
}

// happening is what happened to one object.
type happening struct {
	what   client.EventType
	o      schema.Object
	ending bool // its deletion had begun before
}

// action is it in the words of a plan.
func (h happening) action() string {
	switch {
	case h.what == client.Added:
		return "create"
	case h.what == client.Deleted, h.o.GetDeletionTimestamp() != nil && !h.ending:
		return "delete"
	}
	return "update"
}

// world is what somebody plans against from outside.
func (w *world) outside() reconciler.World {
	cache := w.reg.Cache()
	out := reconciler.World{Repository: "cluster", Live: cache, Kinds: w.catalog.Load().ByGVK, Inventories: client.CachedList[*v1alpha1.Inventory](cache, "")}
	if repo, ok := client.Cached[*v1alpha1.Repository](cache, schema.Key{Name: "cluster"}); ok {
		out.Spec = &repo.Spec
	}
	return out
}

// push pushes a tree as the built-in remote does, and holds what is said of it
// against what happens.
func (p *player) push(t memTree, message string) error {
	p.pushed++
	ctx := context.Background()
	c := p.src.stage(t, message)
	was := p.snapshot()
	p.before = was
	var err error
	if p.plan, err = p.r.Preview(ctx, p.src, c); err != nil {
		return fmt.Errorf("preview: %w", err)
	}
	told, err := reconciler.Plan(ctx, t, c, p.outside())
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	p.lines, p.refused = p.r.Receive(ctx, p.src, c)
	synctest.Wait()
	if p.refused != nil {
		return p.changedNothing(was)
	}
	if a, b := words(p.plan), words(told); a != b && len(told.Findings) == 0 {
		return fmt.Errorf("the push says\n%sand `writ plan`\n%s", a, b)
	}
	if a := words(p.plan); strings.TrimSpace(a) != strings.TrimSpace(strings.Join(p.lines, "\n")) && len(p.plan.Ops) <= 25 {
		return fmt.Errorf("the preview says\n%sand the push\n%s", a, strings.Join(p.lines, "\n"))
	}
	if err := p.changedNothing(was); err != nil {
		return err
	}
	p.src.move(c)
	p.touched = false
	synctest.Wait()
	obj, ok := client.Cached[*v1alpha1.Commit](p.reg.Cache(), schema.Key{Name: report.CommitName("cluster", c.SHA)})
	if !ok {
		return fmt.Errorf("there is no Commit")
	}
	if err := p.entered(obj); err != nil {
		return fmt.Errorf("%w\nthe plan was\n%s", err, words(p.plan))
	}
	if err := p.rest(); err != nil {
		return fmt.Errorf("%w\nthe plan was\n%s", err, words(p.plan))
	}
	if err := p.gone(was, obj); err != nil {
		return fmt.Errorf("%w\nthe plan was\n%s", err, words(p.plan))
	}
	return nil
}

// words is a plan as people read it.
func words(p *plan.Plan) string {
	var b strings.Builder
	_ = p.Write(&b, plan.Style{})
	return b.String()
}

// changedNothing holds the cluster against what it was.
func (p *player) changedNothing(was snapshot) error {
	now := p.snapshot()
	for n, o := range now {
		if before := was[n]; before == nil || before.GetResourceVersion() != o.GetResourceVersion() {
			return fmt.Errorf("a push that has not been accepted changed %s", n)
		}
	}
	if len(now) != len(was) {
		return fmt.Errorf("a push that has not been accepted deleted something")
	}
	return nil
}

// entered holds what the transaction of a commit did against its plan, and
// against what the Commit says.
func (p *player) entered(c *v1alpha1.Commit) error {
	if c.Status.AppliedTime == nil {
		return fmt.Errorf("was accepted, and is %s (%s): %s %v", c.Status.Phase, c.Status.Reason, c.Status.Message, texts(c.Status.Findings))
	}
	if got, want := counts(p.plan), fmt.Sprintf("%d/%d/%d/%d", c.Status.Created, c.Status.Updated, c.Status.Deleted, c.Status.Unchanged); got != want {
		return fmt.Errorf("the plan counts %s, the Commit %s", got, want)
	}
	var said, done []string
	for i := range p.plan.Ops {
		said = append(said, string(p.plan.Ops[i].Action)+" "+p.plan.Ops[i].Ref.String())
	}
	for _, ch := range c.Status.Changes {
		done = append(done, ch.Action+" "+ch.Object)
	}
	if !slices.Equal(said, done) {
		return fmt.Errorf("the plan says %v, the Commit %v", said, done)
	}
	var follows []plan.Consequence
	for _, q := range c.Status.Consequences {
		follows = append(follows, plan.Consequence{Object: q.Object, Kind: q.Kind, Message: q.Message})
	}
	if !slices.Equal(follows, p.plan.Consequences) {
		return fmt.Errorf("the plan says that follows %v, the Commit %v", p.plan.Consequences, follows)
	}
	return p.stored(c)
}

func counts(p *plan.Plan) string {
	return fmt.Sprintf("%d/%d/%d/%d", p.Count(plan.Create), p.Count(plan.Update)+p.Count(plan.Replace), p.Count(plan.Delete), p.Unchanged)
}

func texts(fs []v1alpha1.Finding) (out []string) {
	for _, f := range fs {
		out = append(out, reconciler.Text(f)+" ["+f.Rule+"]")
	}
	return out
}

// stored holds the revision of the store at which a commit entered against its
// plan, object by object.
func (p *player) stored(c *v1alpha1.Commit) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	main := uint64(0)
	for rev, all := range p.happened {
		if h, ok := all["Commit/"+c.Name]; ok {
			if o := h.o.(*v1alpha1.Commit); o.Status.AppliedTime != nil && (main == 0 || rev < main) {
				main = rev
			}
		}
	}
	did := map[string]string{}
	for n, h := range p.happened[main] {
		if kind, _, _ := strings.Cut(n, "/"); !slices.Contains([]string{"Commit", "Inventory", "Repository", "ResourceQuota", "IPAddress"}, kind) {
			did[n] = h.action()
		}
	}
	for i := range p.plan.Ops {
		op := &p.plan.Ops[i]
		n, want := op.Ref.String(), string(op.Action)
		if op.Action == plan.Replace {
			want = "delete"
		}
		got := did[n]
		delete(did, n)
		later := op.Resource.Custom != nil || waves(p.src.trees[c.Spec.SHA])
		if later && got == "" || op.Resource.Kind == "Repository" || op.Resource.Kind == "ResourceQuota" {
			continue // what waits is there when all is at rest
		}
		if got != want {
			return fmt.Errorf("the plan says %s of %s, the store %q", want, n, got)
		}
	}
	for n, what := range did {
		return fmt.Errorf("the store says %s of %s, the plan nothing", what, n)
	}
	return nil
}

// rest waits until the cluster has come to rest, and holds it against the
// commit in force.
func (p *player) rest() error {
	time.Sleep(settled)
	synctest.Wait()
	if p.src.head.SHA == "" {
		return nil
	}
	again, err := p.r.Preview(context.Background(), p.src, p.src.head)
	if err != nil {
		return fmt.Errorf("preview at rest: %w", err)
	}
	excused := map[string]bool{}
	for _, f := range again.Findings {
		if !p.meanwhile(f) {
			return fmt.Errorf("at rest the commit in force is not in the store:\n%s%v", words(again), texts(again.Findings))
		}
		excused[f.Object] = true
	}
	if err := p.waits(slices.DeleteFunc(slices.Clone(again.Ops), func(o plan.Op) bool { return excused[o.Ref.String()] })); err != nil {
		return fmt.Errorf("%w\n%s", err, words(again))
	}
	told, err := reconciler.Plan(context.Background(), p.src.trees[p.src.head.SHA], p.src.head, p.outside())
	if err != nil {
		return fmt.Errorf("plan at rest: %w", err)
	}
	if a, b := words(again), words(told); a != b {
		return fmt.Errorf("at rest `writ plan` of the commit in force says:\n%s%v\nand the server\n%s", b, texts(told.Findings), a)
	}
	writes := p.writes()
	time.Sleep(time.Minute)
	synctest.Wait()
	if n := p.writes(); n != writes {
		return fmt.Errorf("%d writes at rest: %s", n-writes, p.last(3))
	}
	return nil
}

// meanwhile says whether a finding may be about what has happened since the plan:
// somebody else has made an object that waited, in a way that cannot be changed,
// or took one away that a quota or a LimitRange does not let back.
func (p *player) meanwhile(f v1alpha1.Finding) bool {
	waits := waves(p.src.trees[p.src.head.SHA])
	switch f.Rule {
	case "Immutable", "Invalid":
		return waits
	case "Forbidden":
		return (waits || p.touched) && (strings.Contains(f.Message, "exceeded quota") || strings.Contains(f.Message, "maximum storage usage"))
	}
	return false
}

// writes is how many revisions had something of the reconciler's.
func (w *world) writes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.happened)
}

// last names what happened at the last revisions.
func (w *world) last(n int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	revs := slices.Sorted(maps.Keys(w.happened))
	var out []string
	for _, rev := range revs[max(0, len(revs)-n):] {
		for what, h := range w.happened[rev] {
			out = append(out, h.action()+" "+what)
		}
	}
	return strings.Join(out, ", ")
}

// gone holds what is not there any more after a commit against its plan: what
// it deletes, what it says that goes along, and what controllers make and take
// away as they please.
func (p *player) gone(was snapshot, c *v1alpha1.Commit) error {
	now := map[types.UID]bool{}
	for _, o := range p.snapshot() {
		now[o.GetUID()] = true
	}
	acted := map[string]plan.Action{}
	for i := range p.plan.Ops {
		acted[p.plan.Ops[i].Ref.String()] = p.plan.Ops[i].Action
	}
	lost := map[string]int{}
	for _, n := range slices.Sorted(maps.Keys(was)) {
		o := was[n]
		kind, _, _ := strings.Cut(n, "/")
		action := acted[n]
		switch {
		case o.GetDeletionTimestamp() != nil:
		case now[o.GetUID()]:
			if action == plan.Delete || action == plan.Replace {
				if len(o.GetFinalizers()) == 0 {
					return fmt.Errorf("the plan says %s of %s, which is still there", action, n)
				}
			}
		case action == plan.Delete, action == plan.Replace:
		case p.made(o, kind):
		default:
			lost[kind]++
		}
	}
	said := map[string]int{}
	for _, q := range p.plan.Consequences {
		if q.Kind == "TakesAlong" {
			for _, m := range part.FindAllStringSubmatch(q.Message, -1) {
				n, _ := strconv.Atoi(m[1])
				said[m[2]] += n
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(lost)) {
		if most := lost[kind]; most > saidOf(said, kind) {
			return fmt.Errorf("%d %s are gone, the plan says of %d", most, kind, saidOf(said, kind))
		}
	}
	return nil
}

var part = regexp.MustCompile(`(\d+) (\w+)`)

// saidOf is how many of a kind go along, whether the word is singular or not.
func saidOf(said map[string]int, kind string) int {
	for word, n := range said {
		if word == kind || strings.TrimSuffix(word, "s") == kind || strings.TrimSuffix(word, "es") == kind || strings.TrimSuffix(word, "ies")+"y" == kind {
			return n
		}
	}
	return 0
}

// made says whether a controller made an object and takes it away again as it
// pleases: pods of what is changed, say.
func (p *player) made(o schema.Object, kind string) bool {
	switch kind {
	case "IPAddress":
		return true
	case "Pod", "ReplicaSet", "ControllerRevision", "EndpointSlice", "Endpoints", "Job":
		return metav1.GetControllerOf(o) != nil || kind == "Endpoints"
	case "ServiceAccount":
		return o.GetName() == "default"
	case "ConfigMap":
		return o.GetName() == "kube-root-ca.crt"
	}
	return false
}
