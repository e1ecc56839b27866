package deployment

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func deployment(replicas int32, surge, unavailable intstr.IntOrString) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "d", Generation: 1},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: template("v9"),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}},
		},
	}
}

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
}

func replicaSet(image string, size, available int32, age time.Duration) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: image, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age)), Annotations: map[string]string{}},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &size, Template: template(image)},
		Status:     appsv1.ReplicaSetStatus{Replicas: size, AvailableReplicas: available, ReadyReplicas: available},
	}
}

func none([]*appsv1.ReplicaSet) bool { return false }

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		replicas           int32
		surge, unavailable string
		wantS, wantU       int32
	}{
		{10, "25%", "25%", 3, 2},
		{1, "25%", "25%", 1, 0},
		{4, "0", "0", 0, 1},
		{3, "100%", "0", 3, 0},
		{2, "0", "50", 0, 2},
		{0, "25%", "25%", 0, 0},
	} {
		d := deployment(c.replicas, intstr.Parse(c.surge), intstr.Parse(c.unavailable))
		if s, u := maxSurge(d), maxUnavailable(d); s != c.wantS || u != c.wantU {
			t.Errorf("%d replicas, surge %s, unavailable %s: %d, %d, want %d, %d", c.replicas, c.surge, c.unavailable, s, u, c.wantS, c.wantU)
		}
	}
}

func TestPlanRolling(t *testing.T) {
	for _, c := range []struct {
		name               string
		surge, unavailable int32
		current            *appsv1.ReplicaSet
		old                []*appsv1.ReplicaSet
		want               string
	}{
		{"creates with the surge", 1, 0, nil, []*appsv1.ReplicaSet{replicaSet("v1", 3, 3, time.Hour)}, "create 1"},
		{"creates with none where there is no room", 0, 1, nil, []*appsv1.ReplicaSet{replicaSet("v1", 3, 3, time.Hour)}, "create 0"},
		{"creates all at first", 1, 0, nil, nil, "create 3"},
		{"waits for the new pod", 1, 0, replicaSet("v9", 1, 0, 0), []*appsv1.ReplicaSet{replicaSet("v1", 3, 3, time.Hour)}, ""},
		{"ends an old one for a new one that serves", 1, 0, replicaSet("v9", 1, 1, 0), []*appsv1.ReplicaSet{replicaSet("v1", 3, 3, time.Hour)}, "v1=2"},
		{"ends old ones that do not serve first", 1, 1, replicaSet("v9", 1, 0, 0), []*appsv1.ReplicaSet{replicaSet("v1", 3, 2, time.Hour)}, "v1=2"},
		{"ends the oldest first", 0, 2, replicaSet("v9", 0, 0, 0), []*appsv1.ReplicaSet{replicaSet("v1", 2, 2, 2*time.Hour), replicaSet("v2", 1, 1, time.Hour)}, "v1=0"},
		{"shrinks one that is too large", 1, 0, replicaSet("v9", 5, 5, 0), nil, "v9=3"},
		{"has nothing to do", 1, 0, replicaSet("v9", 3, 3, 0), []*appsv1.ReplicaSet{replicaSet("v1", 0, 0, time.Hour)}, ""},
	} {
		w := world{d: deployment(3, intstr.FromInt32(c.surge), intstr.FromInt32(c.unavailable)), current: c.current, old: c.old, podsRun: none}
		if got := describe(plan(w)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func describe(p decision) string {
	out := ""
	if p.create {
		out = fmt.Sprintf("create %d", p.size)
	}
	for _, s := range p.scale {
		out += fmt.Sprintf("%s=%d", s.rs.Name, s.to)
	}
	return out
}

func TestPlanScaleKeepsTheMix(t *testing.T) {
	at := func(rs *appsv1.ReplicaSet, desired, most string) *appsv1.ReplicaSet {
		rs.Annotations[annDesired], rs.Annotations[annMax] = desired, most
		return rs
	}
	// Ten replicas with a surge of three, in the middle of a rollout, become fifteen.
	w := world{
		d:       deployment(15, intstr.FromInt32(3), intstr.FromInt32(2)),
		current: at(replicaSet("v9", 5, 3, 0), "10", "13"),
		old:     []*appsv1.ReplicaSet{at(replicaSet("v1", 8, 8, time.Hour), "10", "13")},
		podsRun: none,
	}
	p := plan(w)
	if got := describe(p); got != "v1=11v9=7" {
		t.Errorf("scaled: %q", got)
	}
	if p.rollout {
		t.Error("a change of size counts as progress of the rollout")
	}
	// A pause holds the rollout, not the size.
	w.d.Spec.Paused = true
	if got := describe(plan(w)); got != "v1=11v9=7" {
		t.Errorf("scaled while paused: %q", got)
	}
	// To nothing.
	w.d = deployment(0, intstr.FromInt32(3), intstr.FromInt32(2))
	if got := describe(plan(w)); got != "v1=0v9=0" {
		t.Errorf("scaled to nothing: %q", got)
	}
}

func TestHistoryIsTrimmed(t *testing.T) {
	w := world{d: deployment(3, intstr.FromInt32(1), intstr.FromInt32(0)), current: replicaSet("v9", 3, 3, 0), podsRun: none}
	w.d.Spec.RevisionHistoryLimit = new(int32)
	*w.d.Spec.RevisionHistoryLimit = 1
	for i, rev := range []string{"3", "1", "2"} {
		rs := replicaSet(fmt.Sprintf("v%s", rev), 0, 0, time.Duration(9-i)*time.Hour)
		rs.Annotations[annRevision] = rev
		w.old = append(w.old, rs)
	}
	w.d.Status = appsv1.DeploymentStatus{UpdatedReplicas: 3, Replicas: 3, AvailableReplicas: 3, ObservedGeneration: 1}
	p := plan(w)
	if len(p.remove) != 2 || p.remove[0].Name != "v1" || p.remove[1].Name != "v2" {
		t.Errorf("removed: %v", p.remove)
	}
}

// model is a Deployment with its ReplicaSets, and a ReplicaSet controller that
// acts at once: it ends pods that do not serve first.
type model struct {
	d    *appsv1.Deployment
	sets []*appsv1.ReplicaSet
	rnd  *rand.Rand
}

func (m *model) available() int32 { return total(m.sets, available) }

// apply carries out a plan.
func (m *model) apply(p decision) {
	if p.create {
		m.sets = append(m.sets, replicaSet("v9", p.size, 0, 0))
	}
	for _, s := range p.scale {
		for _, rs := range m.sets {
			if rs.Name == s.rs.Name {
				*rs.Spec.Replicas = s.to
				rs.Status.Replicas = s.to
				rs.Status.AvailableReplicas = min(rs.Status.AvailableReplicas, s.to)
				annotateSize(m.d, rs)
			}
		}
	}
}

// live lets pods begin to serve, and where faults are allowed, cease to.
func (m *model) live(faults bool) {
	for _, rs := range m.sets {
		missing := size(rs) - available(rs)
		if missing > 0 {
			rs.Status.AvailableReplicas += m.rnd.Int32N(missing + 1)
		}
		if faults && available(rs) > 0 && m.rnd.IntN(8) == 0 {
			rs.Status.AvailableReplicas--
		}
	}
}

func randomModel(rnd *rand.Rand) *model {
	wanted := rnd.Int32N(12)
	surge, unavailable := rnd.Int32N(5), rnd.Int32N(5)
	m := &model{rnd: rnd, d: deployment(wanted, intstr.FromInt32(surge), intstr.FromInt32(unavailable))}
	room := wanted + maxSurge(m.d)
	for i := range rnd.IntN(5) {
		n := rnd.Int32N(room + 1)
		room -= n
		image := fmt.Sprintf("v%d", i)
		if i == 3 {
			image = "v9"
		}
		rs := replicaSet(image, n, rnd.Int32N(n+1), time.Duration(10-i)*time.Hour)
		annotateSize(m.d, rs)
		m.sets = append(m.sets, rs)
	}
	return m
}

// From any state, whatever pods do: no step makes more pods than the surge
// allows or fewer available ones than asked for; once pods behave, the rollout
// ends, and it ends with the right pods.
func TestRollingKeepsItsPromises(t *testing.T) {
	for seed := range uint64(300) {
		m := randomModel(rand.New(rand.NewPCG(seed, 1)))
		start := total(m.sets, size)
		most := max(wanted(m.d)+maxSurge(m.d), start)
		least := wanted(m.d) - maxUnavailable(m.d)
		steps := 0
		for ; steps < 400; steps++ {
			before := m.available()
			p := plan(worldOf(m.d, m.sets, none))
			m.apply(p)
			if n := total(m.sets, size); n > most {
				t.Fatalf("seed %d step %d: %d pods, at most %d allowed", seed, steps, n, most)
			}
			if after := m.available(); after < min(before, least) {
				t.Fatalf("seed %d step %d: %d available, were %d, at least %d asked for", seed, steps, after, before, least)
			}
			if describe(p) == "" && steps > 60 && m.available() == total(m.sets, size) {
				break
			}
			m.live(steps < 60)
		}
		for _, rs := range m.sets {
			want := int32(0)
			if rs.Name == "v9" {
				want = wanted(m.d)
			}
			if size(rs) != want {
				t.Fatalf("seed %d: %s has %d replicas after %d steps, want %d", seed, rs.Name, size(rs), steps, want)
			}
		}
	}
}

// A change of size in the middle of a rollout ends there too.
func TestResizeConverges(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		m := randomModel(rnd)
		for i := range 300 {
			if i == 3 || i == 6 {
				n := rnd.Int32N(15)
				m.d.Spec.Replicas = &n
			}
			m.apply(plan(worldOf(m.d, m.sets, none)))
			if n := total(m.sets, size); i > 6 && n > wanted(m.d)+maxSurge(m.d) && i > 40 {
				t.Fatalf("seed %d: %d pods of at most %d", seed, n, wanted(m.d)+maxSurge(m.d))
			}
			m.live(i < 30)
		}
		if n := total(m.sets, size); n != wanted(m.d) {
			t.Fatalf("seed %d: %d pods in the end, want %d", seed, n, wanted(m.d))
		}
	}
}
