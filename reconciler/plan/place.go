package plan

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
)

// dependencies refuses what can never be fulfilled: a dependency that nobody
// declares and that is not there, and circles.
func (c *computation) dependencies() {
	waiting := map[string]*render.Head{}
	for ref, d := range c.desired {
		if len(d.DependsOn) > 0 {
			waiting[ref.String()] = &d.Head
		}
	}
	if c.in.Rest != nil {
		for _, h := range c.in.Rest.Dependent {
			waiting[h.Object()] = h
		}
	}
	if len(waiting) == 0 {
		return
	}
	names := make(map[string]bool, len(c.desired))
	for ref := range c.desired {
		names[ref.String()] = true
	}
	for _, h := range waiting {
		for _, name := range h.DependsOn {
			if !names[name] && (c.in.Rest == nil || !c.in.Rest.Named(name)) && !c.elsewhere(name) {
				c.find(*h, "metadata.annotations", "DependsOn", fmt.Sprintf("%s depends on %s, which no commit declares", h.Object(), name),
					"name an object as Kind/namespace/name, or Kind/name")
			}
		}
	}
	c.within(waiting)
	if circle := findCircle(waiting); len(circle) > 0 {
		c.find(*waiting[circle[0]], "metadata.annotations", "DependsOn", "objects wait for each other: "+strings.Join(circle, " -> "), "remove one of the dependencies")
	}
}

// within adds to the objects that wait for others the custom resources that they
// wait for: these wait for the definition of their kind.
func (c *computation) within(waiting map[string]*render.Head) {
	awaited, definitions := map[string]bool{}, false
	for _, h := range waiting {
		definitions = definitions || h.Resource.Kind == Definition
		for _, name := range h.DependsOn {
			awaited[name] = true
		}
	}
	if !definitions {
		return
	}
	add := func(h *render.Head) {
		if h.Resource.Custom != nil && awaited[h.Object()] {
			waiting[h.Object()] = h
		}
	}
	for _, d := range c.desired {
		add(&d.Head)
	}
	if c.in.Rest != nil && c.in.Rest.Heads != nil {
		for h := range c.in.Rest.Heads {
			add(h)
		}
	}
}

// holders are the names of what has to be there before an object can be: its
// namespace, and the definition of its kind.
func holders(h *render.Head) []string {
	var out []string
	if h.Key.Namespace != "" {
		out = append(out, "Namespace/"+h.Key.Namespace)
	}
	if h.Resource.Custom != nil {
		out = append(out, Definition+"/"+h.Resource.GroupResource().String())
	}
	return out
}

// awaits are the names of all that has to be there before an object of a name.
func awaits(waiting map[string]*render.Head, name string) []string {
	if h := waiting[name]; h != nil {
		return append(slices.Clone(h.DependsOn), holders(h)...)
	}
	if parts := strings.Split(name, "/"); len(parts) == 3 {
		return []string{"Namespace/" + parts[1]}
	}
	return nil
}

// elsewhere says whether another repository declares an object, and notes
// that it is depended on.
func (c *computation) elsewhere(name string) bool {
	for d := range namedIn(c.before.others, name) {
		if ref, ok := RefOf(d.InventoryObject, c.in.Kinds); ok {
			if c.plan.Elsewhere == nil {
				c.plan.Elsewhere = map[string]render.Ref{}
			}
			c.plan.Elsewhere[name] = ref
			return true
		}
	}
	return false
}

// findCircle returns the names along a circle, the first again at the end. The
// first is an object that says what it depends on: each circle has one.
func findCircle(waiting map[string]*render.Head) []string {
	const visiting, done = 1, 2
	state := map[string]int{}
	var path []string
	var visit func(string) []string
	visit = func(name string) []string {
		switch state[name] {
		case done:
			return nil
		case visiting:
			circle := path[slices.Index(path, name):]
			first := slices.IndexFunc(circle, func(name string) bool { return waiting[name] != nil && len(waiting[name].DependsOn) > 0 })
			return append(slices.Concat(circle[first:], circle[:first]), circle[first])
		}
		state[name] = visiting
		path = append(path, name)
		for _, next := range awaits(waiting, name) {
			if c := visit(next); c != nil {
				return c
			}
		}
		path = path[:len(path)-1]
		state[name] = done
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		if c := visit(name); c != nil {
			return c
		}
	}
	return nil
}

// Held is an op that waits, and for what.
type Held struct {
	Op
	For string
}

// Gate takes out of a plan what has to wait: ops of a wave above the first
// that changes or is not healthy, ops whose dependencies change or are not
// healthy, and what is in a namespace that waits. heads are all declared
// objects. Deletions never wait. Inventories name what is held too; it is only
// created later.
//
// served says whether the server knows a kind: custom resources wait until it
// has read their definition, which may be of the same commit, also where that
// changes one which the server knows: they may have fields that are new.
func Gate(p *Plan, heads []render.Head, healthy func(render.Ref) bool, served func(*schema.Resource) bool) []Held {
	g := newGate(p, heads, healthy)
	redefined := map[string]bool{}
	for i := range p.Ops {
		if o := &p.Ops[i]; o.Resource.Kind == Definition && o.Action != Delete && changesSpec(o) {
			redefined[o.Key.Name] = true
		}
	}
	var held []Held
	later := map[string]bool{} // namespaces that are not there yet; ops name them before what is in them
	p.Ops = slices.DeleteFunc(p.Ops, func(o Op) bool {
		why := ""
		if o.Resource.Custom != nil && (!served(o.Resource) || o.Action != Delete && redefined[o.Resource.GroupResource().String()]) {
			why = Definition + "/" + o.Resource.GroupResource().String()
		} else if g.used {
			why = g.waits(&o)
			if why == "" && o.Action != Delete && later[o.Key.Namespace] {
				why = "Namespace/" + o.Key.Namespace
			}
		}
		if why != "" {
			if o.Resource.Kind == "Namespace" && o.Action != Update {
				later[o.Key.Name] = true
			}
			held = append(held, Held{o, why})
		}
		return why != ""
	})
	return held
}

// Definition is the kind of definitions: what waits for one waits for an object
// whose name begins with it.
const Definition = "CustomResourceDefinition"

// changesSpec says whether an op makes an object or changes its spec.
func changesSpec(o *Op) bool {
	return o.Action != Update || slices.ContainsFunc(o.Diffs, func(d Diff) bool { return strings.HasPrefix(d.Path, "spec") })
}

// gate knows what is not settled.
type gate struct {
	used      bool // any object has a wave or a dependency
	waves     map[string]int
	wave      int // the first that is not settled
	first     string
	unsettled map[string]bool
}

func newGate(p *Plan, heads []render.Head, healthy func(render.Ref) bool) *gate {
	g := &gate{unsettled: map[string]bool{}}
	for i := range heads {
		g.used = g.used || heads[i].Wave != 0 || len(heads[i].DependsOn) > 0
	}
	if !g.used {
		return g
	}
	g.waves = Waves(heads)
	changing := map[render.Ref]bool{}
	for i := range p.Ops {
		changing[p.Ops[i].Ref] = p.Ops[i].Action != Delete
	}
	for i := range heads {
		h := &heads[i]
		if !changing[h.Ref] && healthy(h.Ref) {
			continue
		}
		name := h.Object()
		g.unsettled[name] = true
		if wave := g.waves[name]; len(g.unsettled) == 1 || wave < g.wave {
			g.wave, g.first = wave, name
		}
	}
	for name, ref := range p.Elsewhere {
		g.unsettled[name] = g.unsettled[name] || !healthy(ref)
	}
	return g
}

func (g *gate) waits(o *Op) string {
	if o.Action == Delete {
		return ""
	}
	if g.waves[o.Ref.String()] > g.wave {
		return fmt.Sprintf("wave %d (%s)", g.wave, g.first)
	}
	for _, name := range o.DependsOn {
		if g.unsettled[name] {
			return name
		}
	}
	return ""
}

// Waves are the waves of objects by name: an object is never in an earlier
// wave than what it depends on, than its namespace, or than the definition of
// its kind, or the two would wait for each other.
func Waves(heads []render.Head) map[string]int {
	byName := make(map[string]*render.Head, len(heads))
	for i := range heads {
		byName[heads[i].Object()] = &heads[i]
	}
	out := make(map[string]int, len(heads))
	var of func(string) int
	of = func(name string) int {
		h := byName[name]
		if h == nil {
			return math.MinInt
		}
		if wave, ok := out[name]; ok {
			return wave
		}
		out[name] = h.Wave // ends a circle, which is a finding of its own
		for _, dep := range h.DependsOn {
			out[name] = max(out[name], of(dep))
		}
		for _, holder := range holders(h) {
			out[name] = max(out[name], of(holder))
		}
		return out[name]
	}
	for name := range byName {
		of(name)
	}
	return out
}
