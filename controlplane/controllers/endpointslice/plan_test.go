package endpointslice

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "svc", Labels: map[string]string{"team": "a"}},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, ClusterIP: "10.96.0.7", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("web"), Protocol: corev1.ProtocolTCP}}},
	}
}

func pod(i int, ready bool) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprintf("u%d", i))},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.244.%d.%d", i/250, i%250+1)},
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	return p
}

func zone(string) string { return "z1" }

func TestEndpoint(t *testing.T) {
	for _, c := range []struct {
		name                        string
		change                      func(*corev1.Pod, *corev1.Service)
		in                          bool
		ready, serving, terminating bool
	}{
		{"serves", func(*corev1.Pod, *corev1.Service) {}, true, true, true, false},
		{"not ready", func(p *corev1.Pod, _ *corev1.Service) { p.Status.Conditions = nil }, true, false, false, false},
		{"published though not ready", func(p *corev1.Pod, s *corev1.Service) {
			p.Status.Conditions, s.Spec.PublishNotReadyAddresses = nil, true
		}, true, true, false, false},
		{"ends, and serves to the end", func(p *corev1.Pod, _ *corev1.Service) { p.DeletionTimestamp = &metav1.Time{} }, true, false, true, true},
		{"has ended", func(p *corev1.Pod, _ *corev1.Service) { p.Status.Phase = corev1.PodSucceeded }, false, false, false, false},
		{"has no address", func(p *corev1.Pod, _ *corev1.Service) { p.Status.PodIP = "" }, false, false, false, false},
		{"has an address of the other family", func(p *corev1.Pod, _ *corev1.Service) { p.Status.PodIP = "fd00::1" }, false, false, false, false},
	} {
		p, svc := pod(1, true), service()
		c.change(p, svc)
		e, in := endpoint(svc, p, discoveryv1.AddressTypeIPv4, zone)
		if in != c.in {
			t.Errorf("%s: in is %v", c.name, in)
		} else if in && (*e.Conditions.Ready != c.ready || *e.Conditions.Serving != c.serving || *e.Conditions.Terminating != c.terminating) {
			t.Errorf("%s: ready %v serving %v terminating %v", c.name, *e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating)
		}
	}
}

func TestSliceOfService(t *testing.T) {
	svc := service()
	svc.Spec.ClusterIP = corev1.ClusterIPNone
	p := pod(1, true)
	p.Spec.Hostname, p.Spec.Subdomain = "db-0", "web"
	d := plan(svc, []*corev1.Pod{p}, nil, zone)
	if len(d.Create) != 1 {
		t.Fatalf("plan: %+v", d)
	}
	s := d.Create[0]
	if _, headless := s.Labels[corev1.IsHeadlessService]; !headless || s.Labels["team"] != "a" || s.Labels[discoveryv1.LabelServiceName] != "web" || s.Labels[discoveryv1.LabelManagedBy] != string(ManagedBy) {
		t.Errorf("labels: %v", s.Labels)
	}
	e := s.Endpoints[0]
	if *s.Ports[0].Port != 8080 || *s.Ports[0].Name != "http" || *e.Hostname != "db-0" || *e.Zone != "z1" || *e.NodeName != "n1" || e.TargetRef.UID != "u1" {
		t.Errorf("slice: %+v", s)
	}
	if s.OwnerReferences[0].UID != "svc" || s.GenerateName != "web-" {
		t.Errorf("metadata: %+v", s.ObjectMeta)
	}
}

// A port by name has another number in each pod: such pods cannot share a
// slice.
func TestNamedPortsDiffer(t *testing.T) {
	a, b, c := pod(1, true), pod(2, true), pod(3, true)
	b.Spec.Containers[0].Ports[0].ContainerPort = 9090
	c.Spec.Containers[0].Ports = nil
	d := plan(service(), []*corev1.Pod{a, b, c}, nil, zone)
	if len(d.Create) != 3 {
		t.Errorf("%d slices for three kinds of ports", len(d.Create))
	}
}

// held is the slices as a server would hold them after plans.
type held struct {
	slices  []*discoveryv1.EndpointSlice
	created int
	writes  int
}

func (h *held) apply(d decision) {
	gone := map[string]bool{}
	for _, s := range d.Remove {
		gone[s.Name] = true
	}
	changed := map[string]*discoveryv1.EndpointSlice{}
	for _, s := range d.Update {
		changed[s.Name] = s
	}
	var next []*discoveryv1.EndpointSlice
	for _, s := range h.slices {
		if c := changed[s.Name]; c != nil {
			s = c
		}
		if !gone[s.Name] {
			next = append(next, s)
		}
	}
	for _, s := range d.Create {
		h.created++
		s.Name = fmt.Sprintf("s%d", h.created)
		next = append(next, s)
	}
	h.slices = next
	h.writes += len(d.Create) + len(d.Update) + len(d.Remove)
}

// Whatever pods do: each endpoint is in one slice, as it should be, no slice
// holds more than a hundred, and a second look changes nothing. One pod that
// changes costs one write.
func TestSlicesFollowPods(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		h := &held{}
		var pods []*corev1.Pod
		next := 0
		for step := range 30 {
			for range rnd.IntN(90) {
				pods = append(pods, pod(next, rnd.IntN(2) == 0))
				next++
			}
			rnd.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
			pods = pods[:len(pods)-rnd.IntN(len(pods)+1)/2]
			h.apply(plan(service(), pods, h.slices, zone))
			h.check(t, seed, step, pods)
			if d := plan(service(), pods, h.slices, zone); len(d.Create)+len(d.Update)+len(d.Remove) > 0 {
				t.Fatalf("seed %d step %d: a second look changes %d/%d/%d slices", seed, step, len(d.Create), len(d.Update), len(d.Remove))
			}
			if len(pods) > 0 {
				flip := pods[0].DeepCopy()
				flip.Status.Conditions[0].Status = map[corev1.ConditionStatus]corev1.ConditionStatus{"True": "False", "False": "True"}[flip.Status.Conditions[0].Status]
				pods[0] = flip
				before := h.writes
				h.apply(plan(service(), pods, h.slices, zone))
				if h.writes-before != 1 {
					t.Fatalf("seed %d step %d: one pod that changes costs %d writes", seed, step, h.writes-before)
				}
			}
		}
	}
}

func (h *held) check(t *testing.T, seed uint64, step int, pods []*corev1.Pod) {
	t.Helper()
	ready := map[types.UID]bool{}
	for _, s := range h.slices {
		if len(s.Endpoints) > maxEndpoints {
			t.Fatalf("seed %d step %d: %d endpoints in a slice", seed, step, len(s.Endpoints))
		}
		for _, e := range s.Endpoints {
			if _, twice := ready[e.TargetRef.UID]; twice {
				t.Fatalf("seed %d step %d: %s is in two slices", seed, step, e.TargetRef.Name)
			}
			ready[e.TargetRef.UID] = *e.Conditions.Ready
		}
	}
	if len(h.slices) == 0 {
		t.Fatalf("seed %d step %d: no slice", seed, step)
	}
	for _, p := range pods {
		got, in := ready[p.UID]
		if !in || got != (p.Status.Conditions[0].Status == corev1.ConditionTrue) {
			t.Fatalf("seed %d step %d: %s in %v ready %v", seed, step, p.Name, in, got)
		}
	}
	if len(ready) != len(pods) {
		t.Fatalf("seed %d step %d: %d endpoints of %d pods", seed, step, len(ready), len(pods))
	}
}
