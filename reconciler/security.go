package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"k8s.io/pod-security-admission/api"

	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/podstandard"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// baseline judges by what a cluster runs with.
var baseline = sync.OnceValue(func() *podstandard.Judge {
	j, err := podstandard.New(podstandard.Baseline())
	if err != nil {
		panic(err) // of upstream's own checks
	}
	return j
})

// pods are the objects of a unit that make pods, and by which fields those break
// the levels of Pod Security that were asked for.
type pods struct {
	makes    []int        // by their numbers
	accepted map[int]bool // whose manifests accept that
	usual    bool         // some break what a namespace enforces that says nothing

	mu    sync.Mutex
	known map[api.LevelVersion]map[int][]validate.Insecure
}

// space is what a unit says of a namespace.
type space struct {
	ref    render.Ref
	labels map[string]string
}

// judgeSecurity notes what pods a manifest makes, with their breaches of the
// usual level. o is what validate.Decode has made of it.
func (c *checked) judgeSecurity(i int, m *render.Manifest, o schema.Object, j *podstandard.Judge, redact func([]v1alpha1.Finding) []v1alpha1.Finding) {
	accepted := validate.Accepted(m)
	if accepted.Any() {
		o = validate.DecodeApplied(m)
	}
	if o == nil || !validate.MakesPods(o) {
		return
	}
	if c.pods == nil {
		c.pods = &pods{known: map[api.LevelVersion]map[int][]validate.Insecure{j.Default(): {}}}
	}
	c.pods.makes = append(c.pods.makes, i)
	if m.Resource.Kind != "Pod" && accepted.Takes(validate.RulePodSecurity) {
		if c.pods.accepted == nil {
			c.pods.accepted = map[int]bool{}
		}
		c.pods.accepted[i] = true
	}
	if found := validate.Security(m, o, j, j.Default()); len(found) > 0 {
		c.pods.known[j.Default()][i] = redacted(found, redact)
		c.pods.usual = true
	}
}

func redacted(found []validate.Insecure, redact func([]v1alpha1.Finding) []v1alpha1.Finding) []validate.Insecure {
	for i := range found {
		found[i].Finding = redact([]v1alpha1.Finding{found[i].Finding})[0]
	}
	return found
}

// insecure is by which fields the pods of an object of a unit break a level.
// Levels that are asked for the first time cost reading the unit again.
func (ev *evaluation) insecure(ctx context.Context, u *unit, i int, lv api.LevelVersion) ([]validate.Insecure, error) {
	u.pods.mu.Lock()
	defer u.pods.mu.Unlock()
	known, ok := u.pods.known[lv]
	if !ok {
		out, err := ev.scan.Render(ctx, u.Unit)
		if err != nil || len(out.Manifests) != len(u.heads) {
			return nil, wrap("read "+u.Path+" again", err)
		}
		known = map[int][]validate.Insecure{}
		for _, i := range u.pods.makes {
			m := &out.Manifests[i]
			if found := validate.Security(m, validate.DecodeApplied(m), ev.judge.security, lv); len(found) > 0 {
				known[i] = redacted(found, out.Redact)
			}
		}
		u.pods.known[lv] = known
	}
	return known[i], nil
}

// security says which objects of the tree make pods that their namespaces would
// refuse. live is the cluster; nil where that is not known: of a namespace that
// the tree does not declare nobody knows what it enforces then.
//
// Upstream lets such a template in and warns, and its pods never start. A commit
// is judged before: it is refused, unless its author accepts that by name, or it
// is so in the cluster already, where refusing would hold up every other commit.
func (ev *evaluation) security(ctx context.Context, live plan.Live) (refused, warned []v1alpha1.Finding, err error) {
	s := &securing{ev: ev, live: live, rooms: map[string]*room{}}
	for u := range ev.noted.All() {
		if u.pods == nil || !u.pods.usual {
			continue
		}
		for _, i := range u.pods.makes {
			if r := s.room(u.heads[i].Key.Namespace); !r.special {
				s.judge(ctx, u, i, r)
			}
		}
	}
	for _, name := range ev.namespaces() {
		if r := s.room(name); r.special {
			for u, i := range ev.podsIn(name) {
				s.judge(ctx, u, i, r)
			}
		}
	}
	return s.refused, s.warned, s.err
}

// securing holds the objects of a tree against the levels of their namespaces.
type securing struct {
	ev    *evaluation
	live  plan.Live
	rooms map[string]*room

	refused, warned []v1alpha1.Finding
	err             error
}

// room is what a namespace asks of the pods in it.
type room struct {
	name     string
	declared *render.Head // nil: the tree does not declare it
	known    bool         // what labels it has
	exempt   bool
	labelled bool // it says itself what it enforces
	enforce  api.LevelVersion
	warn     api.LevelVersion // privileged, unless a label asks for more
	before   api.LevelVersion // that it enforces in the cluster
	// special says that it asks for something else than a namespace that says
	// nothing.
	special bool
}

func (s *securing) room(name string) *room {
	r, ok := s.rooms[name]
	if !ok {
		r = s.ev.room(name, s.live)
		s.rooms[name] = r
	}
	return r
}

// room reads what a namespace will ask for when the tree is applied: what the
// tree says, and what others have set on it and Git leaves out.
func (ev *evaluation) room(name string, live plan.Live) *room {
	j, ref := ev.judge.security, render.Ref{Resource: schema.ByGVK(render.NamespaceKind), Key: schema.Key{Name: name}}
	r, labels := &room{name: name, exempt: j.ExemptNamespace(name), before: j.Default()}, map[string]string{}
	if live != nil {
		if o, ok := live.Get(ref.Resource, ref.Key); ok {
			r.known = true
			was, _ := j.Policy(o.GetLabels())
			r.before = was.Enforce
			for k, v := range o.GetLabels() {
				if !plan.Owns(o, "metadata", "labels", k) {
					labels[k] = v
				}
			}
		}
	}
	for u := range ev.owners(ref) {
		if i := slices.IndexFunc(u.spaces, func(s space) bool { return s.ref == ref }); i >= 0 {
			for k, v := range u.spaces[i].labels {
				labels[k] = v
			}
		}
		for i := range u.heads {
			if u.heads[i].Ref == ref {
				r.known, r.declared = true, &u.heads[i]
			}
		}
	}
	want, _ := j.Policy(labels) // the API refuses a label that cannot be read
	r.enforce, r.warn = want.Enforce, api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
	_, r.labelled = labels[api.EnforceLevelLabel]
	if labels[api.WarnLevelLabel] != "" {
		r.warn = want.Warn
	}
	r.special = r.enforce != j.Default() || r.warn.Level != api.LevelPrivileged
	return r
}

// judge holds one object against what its namespace asks for.
func (s *securing) judge(ctx context.Context, u *unit, i int, r *room) {
	if s.err != nil || r.exempt {
		return
	}
	h := &u.heads[i]
	enforced, err := s.ev.insecure(ctx, u, i, r.enforce)
	if err != nil {
		s.err = err
		return
	}
	before := map[string]bool{}
	if len(enforced) > 0 && s.live != nil {
		if o, ok := s.live.Get(h.Resource, h.Key); ok {
			before = validate.BrokenChecks(o, s.ev.judge.security, r.before)
		}
	}
	for k := range enforced {
		f := enforced[k].Finding
		r.explain(&f, h.Resource.Kind == "Pod", u.pods.accepted[i])
		switch {
		case u.pods.accepted[i]:
			f.Message += "; the manifest accepts that, so the commit enters"
			s.warned = append(s.warned, f)
		case before[enforced[k].Check]:
			f.Message += "; it is so in the cluster already, so pods that run stay"
			s.warned = append(s.warned, f)
		case !r.known:
			s.warned = append(s.warned, f)
		default:
			s.refused = append(s.refused, f)
		}
	}
	if len(enforced) > 0 || r.warn.Level == api.LevelPrivileged {
		return
	}
	warned, err := s.ev.insecure(ctx, u, i, r.warn)
	if err != nil {
		s.err = err
		return
	}
	for k := range warned {
		f := warned[k].Finding
		f.Message = fmt.Sprintf("%s: the namespace %s warns of what Pod Security %q refuses: %s", f.Field, r.name, r.warn.Level, f.Message)
		s.warned = append(s.warned, f)
	}
}

// explain completes what is wrong with an object by what its namespace says.
func (r *room) explain(f *v1alpha1.Finding, isPod, accepted bool) {
	level, whose := fmt.Sprintf("Pod Security %q", r.enforce.Level), ""
	switch {
	case !r.known:
		whose = ", unless it has labels that say otherwise"
	case !r.labelled:
		whose = ", as one does that says nothing"
	}
	refuses := "so none of the pods would start"
	if isPod {
		refuses = "so the pod would be refused"
	}
	f.Message = fmt.Sprintf("%s: the namespace %s enforces %s%s, %s: %s", f.Field, r.name, level, whose, refuses, f.Message)
	f.Hint = "the namespace takes it with the label pod-security.kubernetes.io/enforce: privileged"
	if r.enforce.Level == api.LevelRestricted {
		f.Hint = "the namespace takes less with the label pod-security.kubernetes.io/enforce: baseline, or privileged"
	}
	if r.declared != nil {
		f.Hint += fmt.Sprintf(" (%s:%d)", r.declared.File, r.declared.Line)
	}
	if !isPod && !accepted {
		f.Hint += fmt.Sprintf("; or accept it: annotate the object %s: %s", v1alpha1.AcceptAnnotation, validate.RulePodSecurity)
	}
}

// labelsOf are the labels that a manifest declares.
func labelsOf(m *render.Manifest) map[string]string {
	var o struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(m.JSON, &o) // what is of another type is a finding by itself
	return o.Metadata.Labels
}
