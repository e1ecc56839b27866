package defaults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// pair is an object and what the API server of Kubernetes v1.36.4 made of it.
type pair struct{ in, want []byte }

// recorded reads testdata/upstream.jsonl: lines of an object, each followed by
// the same object after the defaulting of k8s.io/kubernetes v1.36.4. The objects
// are those of validate/testdata/valid and of more.yaml here.
func recorded(t testing.TB) []pair {
	t.Helper()
	f, err := os.Open("testdata/upstream.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	var out []pair
	for s.Scan() {
		p := pair{in: bytes.Clone(s.Bytes())}
		if !s.Scan() {
			t.Fatal("an object without its defaulted form")
		}
		p.want = bytes.Clone(s.Bytes())
		out = append(out, p)
	}
	if err := s.Err(); err != nil || len(out) < 60 {
		t.Fatalf("%d objects: %v", len(out), err)
	}
	return out
}

func decode(t testing.TB, data []byte) schema.Object {
	t.Helper()
	var tm metav1.TypeMeta
	if err := json.Unmarshal(data, &tm); err != nil {
		t.Fatal(err)
	}
	r := schema.ByGVK(kschema.FromAPIVersionAndKind(tm.APIVersion, tm.Kind))
	o, err := schema.Decode(r, schema.JSON, data, true)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func encode(t testing.TB, o schema.Object) map[string]any {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDefaultsAreUpstreams(t *testing.T) {
	changed := 0
	for _, p := range recorded(t) {
		o := decode(t, p.in)
		before := encode(t, o)
		Apply(o)
		got := encode(t, o)
		if diff := cmp.Diff(encode(t, decode(t, p.want)), got); diff != "" {
			t.Errorf("%s %s (-upstream +ours):\n%s", o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), diff)
		}
		if !cmp.Equal(before, got) {
			changed++
		}
		Apply(o)
		if diff := cmp.Diff(got, encode(t, o)); diff != "" {
			t.Errorf("%s: a second Apply changes it:\n%s", o.GetName(), diff)
		}
	}
	if changed < 40 {
		t.Errorf("only %d objects got defaults", changed)
	}
}

func TestOwnKinds(t *testing.T) {
	r := &v1alpha1.Repository{Spec: v1alpha1.RepositorySpec{URL: "builtin"}}
	Apply(r)
	want := v1alpha1.RepositorySpec{URL: "builtin", Branch: "main", Path: ".", Interval: &metav1.Duration{Duration: 15 * time.Second}, OnError: v1alpha1.OnErrorRefuse, Undeclared: v1alpha1.UndeclaredKeep}
	if diff := cmp.Diff(want, r.Spec); diff != "" {
		t.Error(diff)
	}
	c := &v1alpha1.Cluster{}
	Apply(c)
	if diff := cmp.Diff(v1alpha1.ClusterSpec{Domain: "cluster.local", PodCIDR: "10.244.0.0/16", ServiceCIDR: "10.96.0.0/16"}, c.Spec); diff != "" {
		t.Error(diff)
	}
}

// TestDefaultsShareNothing changes an object after the fact: another that got
// the same defaults must not see it.
func TestDefaultsShareNothing(t *testing.T) {
	a, b := &corev1.Pod{}, &corev1.Pod{}
	Apply(a)
	Apply(b)
	*a.Spec.TerminationGracePeriodSeconds = 7
	*a.Spec.EnableServiceLinks = false
	if *b.Spec.TerminationGracePeriodSeconds != 30 || !*b.Spec.EnableServiceLinks {
		t.Error("two pods share a default")
	}
	rc := &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}}}
	Apply(rc)
	rc.Labels["x"] = "y"
	if len(rc.Spec.Selector) != 1 || len(rc.Spec.Template.Labels) != 1 {
		t.Error("labels, selector and template share a map")
	}
}

// TestEmptyObjects applies defaults to an empty object of every kind.
func TestEmptyObjects(t *testing.T) {
	for _, r := range schema.Resources {
		o := r.New()
		Apply(o)
		once := encode(t, o)
		Apply(o)
		if diff := cmp.Diff(once, encode(t, o)); diff != "" {
			t.Errorf("%s: %s", r, diff)
		}
	}
}

func BenchmarkApplyPod(b *testing.B) {
	p := decode(b, recorded(b)[1].in)
	b.ReportAllocs()
	for b.Loop() {
		Apply(p.DeepCopyObject().(schema.Object))
	}
}
