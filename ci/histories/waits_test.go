package histories

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// place is where a declared object stands among the others: as its author wrote
// it, in its namespace, and after the definition of its kind.
type place struct {
	wave  int
	needs []string
}

// places are those of the objects of a tree.
func places(t memTree) map[string]place {
	out := map[string]place{}
	for _, text := range t {
		for doc := range strings.SplitSeq(text, "---\n") {
			var o metav1.PartialObjectMetadata
			if yaml.Unmarshal([]byte(doc), &o) != nil || o.Kind == "" {
				continue
			}
			one := place{}
			one.wave, _ = strconv.Atoi(cmp.Or(o.Annotations[v1alpha1.WaveAnnotation], o.Annotations[v1alpha1.ArgoWaveAnnotation]))
			if dep := o.Annotations[v1alpha1.DependsOnAnnotation]; dep != "" {
				one.needs = []string{dep}
			}
			if o.Namespace != "" {
				one.needs = append(one.needs, "Namespace/"+o.Namespace)
			}
			if o.Kind == "Foo" {
				one.needs = append(one.needs, "CustomResourceDefinition/foos.t.dev")
			}
			out[o.Kind+"/"+strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")] = one
		}
	}
	return out
}

// waves says whether a tree has objects whose turn comes later.
func waves(t memTree) bool {
	for _, text := range t {
		if strings.Contains(text, v1alpha1.WaveAnnotation) || strings.Contains(text, v1alpha1.ArgoWaveAnnotation) || strings.Contains(text, v1alpha1.DependsOnAnnotation) {
			return true
		}
	}
	return false
}

// waits holds what a commit has not done at rest against what is declared: each
// op must wait for an object that is there and not healthy, since nobody runs
// pods here. What only waits for others that wait, waits for nothing.
func (p *player) waits(left []plan.Op) error {
	all := places(p.src.trees[p.src.head.SHA])
	pending := map[string]bool{}
	for i := range left {
		pending[left[i].Ref.String()] = true
	}
	sick := func(n string) bool {
		kind, key, _ := strings.Cut(n, "/")
		r := p.kind(kind)
		if pending[n] || r == nil {
			return false
		}
		o, _ := p.reg.Cache().Get(r, schema.ParseKey(key))
		return health.In(o, p.reg.Cache()).Status != health.Healthy
	}
	for i := range left {
		n := left[i].Ref.String()
		if left[i].Action == plan.Delete || !behind(all, n, sick, map[string]bool{}) {
			return fmt.Errorf("at rest the commit in force is not in the store: %s of %s waits for nothing", left[i].Action, n)
		}
	}
	return nil
}

// behind says whether something sick stands before an object: in an earlier
// wave, or in what it depends on.
func behind(all map[string]place, n string, sick func(string) bool, seen map[string]bool) bool {
	if seen[n] {
		return false
	}
	seen[n] = true
	own := waveOf(all, n, map[string]bool{})
	for other := range all {
		if waveOf(all, other, map[string]bool{}) < own && sick(other) {
			return true
		}
	}
	for _, dep := range all[n].needs {
		if sick(dep) || behind(all, dep, sick, seen) {
			return true
		}
	}
	return false
}

// waveOf is the wave of an object: never an earlier one than that of what it
// depends on.
func waveOf(all map[string]place, n string, seen map[string]bool) int {
	wave := all[n].wave
	for _, dep := range all[n].needs {
		if _, declared := all[dep]; declared && !seen[dep] {
			seen[dep] = true
			wave = max(wave, waveOf(all, dep, seen))
		}
	}
	return wave
}
