package daemonset

import (
	"maps"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/writ-os/writ/controlplane/controller/podset"
)

// fieldName is how node affinity names a node.
const fieldName = "metadata.name"

// fit says whether a node is to run the DaemonSet's pod, and whether a pod that
// is there may stay.
type fit struct{ run, stay bool }

// matcher knows on which nodes the pods of one DaemonSet fit. Its affinity and
// tolerations are read once, not once a node.
type matcher struct {
	nodeName    string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

func newMatcher(ds *appsv1.DaemonSet) matcher {
	spec := &ds.Spec.Template.Spec
	return matcher{spec.NodeName, nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}), tolerations(spec)}
}

func (m matcher) fits(node *corev1.Node) fit {
	if m.nodeName != "" && m.nodeName != node.Name {
		return fit{}
	}
	if ok, err := m.affinity.Match(node); err != nil || !ok {
		return fit{}
	}
	f := fit{run: true, stay: true}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule || tolerates(m.tolerations, t) {
			continue
		}
		f.run = false
		if t.Effect == corev1.TaintEffectNoExecute {
			f.stay = false
		}
	}
	return f
}

// matchers remembers those of the DaemonSets as they were seen last: each node
// that comes asks all of them.
type matchers struct {
	mu sync.Mutex
	of map[types.UID]seen
}

type seen struct {
	ds *appsv1.DaemonSet // nobody changes it
	m  matcher
}

func (k *matchers) get(ds *appsv1.DaemonSet) matcher {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s, ok := k.of[ds.UID]; ok && s.ds == ds {
		return s.m
	}
	if k.of == nil {
		k.of = map[types.UID]seen{}
	}
	m := newMatcher(ds)
	k.of[ds.UID] = seen{ds, m}
	return m
}

func (k *matchers) forget(ds types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.of, ds)
}

func tolerates(tolerations []corev1.Toleration, t *corev1.Taint) bool {
	for i := range tolerations {
		tol := &tolerations[i]
		if (tol.Effect == "" || tol.Effect == t.Effect) && (tol.Key == "" || tol.Key == t.Key) &&
			(tol.Operator == corev1.TolerationOpExists || tol.Value == t.Value) {
			return true
		}
	}
	return false
}

// tolerations are the template's and those that every daemon has: it belongs
// to the node and shares its troubles.
func tolerations(spec *corev1.PodSpec) []corev1.Toleration {
	add := []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	}
	if spec.HostNetwork {
		add = append(add, corev1.Toleration{Key: corev1.TaintNodeNetworkUnavailable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	var out []corev1.Toleration
	for _, t := range spec.Tolerations {
		superseded := false
		for _, a := range add {
			superseded = superseded || t.MatchToleration(&a)
		}
		if !superseded {
			out = append(out, t)
		}
	}
	return append(out, add...)
}

// newPod returns the pod for one node. It names the node in its affinity, not
// in spec.nodeName: the scheduler still has to find the room.
func newPod(ds *appsv1.DaemonSet, node, hash string) *corev1.Pod {
	p := podset.FromTemplate(&ds.Spec.Template, ds)
	p.Labels = maps.Clone(p.Labels)
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[appsv1.ControllerRevisionHashLabelKey] = hash
	if g := ds.Annotations[appsv1.DeprecatedTemplateGeneration]; g != "" {
		p.Labels["pod-template-generation"] = g
	}
	p.Spec.Tolerations = tolerations(&p.Spec)
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	if p.Spec.Affinity.NodeAffinity == nil {
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: fieldName, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}},
	}
	return p
}

// byNode sorts pods by the node that they run on or are meant for.
func byNode(pods []*corev1.Pod) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for _, p := range pods {
		out[nodeOf(p)] = append(out[nodeOf(p)], p)
	}
	return out
}

func nodeOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == fieldName && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// The pause before a failed pod of a node is replaced again.
const (
	retryFirst = time.Second
	retryMost  = 15 * time.Minute
)

// retries remembers how often the pods of a DaemonSet failed on a node.
type retries struct {
	mu sync.Mutex
	on map[place]attempt
}

type place struct {
	ds   types.UID
	node string
}

type attempt struct {
	pause time.Duration
	at    metav1.Time
	pod   types.UID
}

func newRetries() *retries { return &retries{on: map[place]attempt{}} }

// pause is how long a failed pod still has to lie before it is replaced. A
// quiet time twice as long as the longest pause forgives.
func (r *retries) pause(ds types.UID, node string, pod types.UID, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, a := range r.on {
		if now.Sub(a.at.Time) > 2*retryMost {
			delete(r.on, k)
		}
	}
	k := place{ds, node}
	a, ok := r.on[k]
	if ok && a.pod == pod {
		return 0 // decided before; its deletion is on the way
	}
	if wait := a.at.Add(a.pause).Sub(now); ok && wait > 0 {
		return wait
	}
	r.on[k] = attempt{pause: min(max(2*a.pause, retryFirst), retryMost), at: metav1.NewTime(now), pod: pod}
	return 0
}
