package plan

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func TestReboots(t *testing.T) {
	image := func(name, version string) *v1alpha1.NodeImage {
		return &v1alpha1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeImageSpec{Version: version}}
	}
	pool := func(name, image string, change ...func(*v1alpha1.NodePool)) *v1alpha1.NodePool {
		p := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodePoolSpec{Image: image}}
		for _, c := range change {
			c(p)
		}
		return p
	}
	node := func(version string, labels ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{v1alpha1.ImageAnnotation: version}}}
		for _, l := range labels {
			n.Labels[l] = ""
		}
		return n
	}
	of := func(images []*v1alpha1.NodeImage, pools ...*v1alpha1.NodePool) fleet {
		f := fleet{map[string]*v1alpha1.NodePool{}, map[string]*v1alpha1.NodeImage{}}
		for _, i := range images {
			f.images[i.Name] = i
		}
		for _, p := range pools {
			f.pools[p.Name] = p
		}
		return f
	}
	images := []*v1alpha1.NodeImage{image("a", "1.2.3"), image("b", "1.2.4")}
	failed := image("b", "1.2.4")
	failed.Status.Failed = []v1alpha1.NodeImageFailure{{Node: "w1", Reason: "ImageFailed"}}
	bad := []*v1alpha1.NodeImage{images[0], failed}
	two := intstr.FromInt32(2)
	wide := func(p *v1alpha1.NodePool) { p.Spec.Update.MaxUnavailable = &two }
	paused := func(p *v1alpha1.NodePool) { p.Spec.Update.Paused = true }
	night := func(p *v1alpha1.NodePool) { p.Spec.RebootWindow = &v1alpha1.RebootWindow{} }
	quiet := func(p *v1alpha1.NodePool) { p.Spec.KernelArguments = []string{"quiet"} }
	only := func(label string, priority int32) func(*v1alpha1.NodePool) {
		return func(p *v1alpha1.NodePool) {
			p.Spec.Selector.MatchLabels, p.Spec.Priority = map[string]string{label: ""}, priority
		}
	}
	server := "node-role.kubernetes.io/control-plane"

	for _, c := range []struct {
		name          string
		nodes         []*corev1.Node
		before, after fleet
		want          string
	}{
		{"another version", []*corev1.Node{node("1.2.3"), node("1.2.3")}, of(images, pool("workers", "a")), of(images, pool("workers", "b")), "NodePool/workers: 2 nodes of pool workers download writ 1.2.4 and reboot one after another"},
		{"one node", []*corev1.Node{node("1.2.3"), node("1.2.4")}, of(images, pool("workers", "a")), of(images, pool("workers", "b")), "NodePool/workers: 1 node of pool workers downloads writ 1.2.4 and reboots"},
		{"several at a time", []*corev1.Node{node("1.2.3"), node("1.2.3")}, of(images), of(images, pool("p", "b", wide)), "NodePool/p: 2 nodes of pool p download writ 1.2.4 and reboot, at most 2 at a time"},
		{"in a window", []*corev1.Node{node("1.2.3")}, of(images), of(images, pool("p", "b", night)), "NodePool/p: 1 node of pool p downloads writ 1.2.4 and reboots, in its reboot window"},
		{"paused", []*corev1.Node{node("1.2.3")}, of(images), of(images, pool("p", "b", paused)), "NodePool/p: 1 node of pool p downloads writ 1.2.4 and reboots, once the pool is not paused any more"},
		{"other arguments", []*corev1.Node{node("1.2.3"), node("1.2.3")}, of(images, pool("p", "a")), of(images, pool("p", "a", quiet)), "NodePool/p: 2 nodes of pool p reboot one after another, with other kernel arguments"},
		{"the one server", []*corev1.Node{node("1.2.3", server)}, of(images, pool("p", "a")), of(images, pool("p", "b")), "NodePool/p: 1 node of pool p downloads writ 1.2.4 and reboots; the API is away while the one control-plane node does"},
		{"one of three servers", []*corev1.Node{node("1.2.3", server), node("1.2.4", server), node("1.2.4", server)}, of(images, pool("p", "a")), of(images, pool("p", "b")), "NodePool/p: 1 node of pool p downloads writ 1.2.4 and reboots"},
		{"a version that failed", []*corev1.Node{node("1.2.3")}, of(bad, pool("p", "a")), of(bad, pool("p", "b")), "NodePool/p: no node is updated: b has failed on node w1; annotate it with writ.dev/retry to try it again"},
		{"a version that is tried again", []*corev1.Node{node("1.2.3")}, of(bad, pool("p", "b")), of(images, pool("p", "b")), "NodePool/p: 1 node of pool p downloads writ 1.2.4 and reboots"},
		{"the pool goes, another takes the node", []*corev1.Node{node("1.2.3", "x")}, of(images, pool("x", "a", only("x", 1)), pool("rest", "b")), of(images, pool("rest", "b")), "NodePool/rest: 1 node of pool rest downloads writ 1.2.4 and reboots"},
		{"the image comes", []*corev1.Node{node("1.2.3")}, of(nil, pool("p", "b")), of(images, pool("p", "b")), "NodePool/p: 1 node of pool p downloads writ 1.2.4 and reboots"},

		{"would happen anyway", []*corev1.Node{node("1.2.3")}, of(images, pool("p", "b")), of(images, pool("p", "b", wide)), ""},
		{"runs it", []*corev1.Node{node("1.2.4")}, of(images, pool("p", "a")), of(images, pool("p", "b")), ""},
		{"not made from an image", []*corev1.Node{node("")}, of(images, pool("p", "a")), of(images, pool("p", "b")), ""},
		{"no image", []*corev1.Node{node("1.2.3")}, of(images, pool("p", "b")), of(images, pool("p", "")), ""},
		{"an image that is not there", []*corev1.Node{node("1.2.3")}, of(images, pool("p", "a")), of(images, pool("p", "c")), ""},
		{"of another pool", []*corev1.Node{node("1.2.3", "y")}, of(images), of(images, pool("x", "b", only("x", 1))), ""},
	} {
		var got []string
		for _, q := range reboots(c.nodes, c.before, c.after) {
			if q.Kind != "Reboot" {
				t.Errorf("%s: kind %s", c.name, q.Kind)
			}
			got = append(got, fmt.Sprintf("%s: %s", q.Object, q.Message))
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, text, c.want)
		}
	}
}

// The plan of a commit says it, where the live cluster can be listed.
func TestPlanTellsOfReboots(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	manifests := func(image string) []Unit {
		return []Unit{unit(t, "nodes.yaml", `
apiVersion: writ.dev/v1alpha1
kind: NodeImage
metadata: {name: a}
spec: {version: 1.2.3, source: {url: "https://example.com/a"}, digest: "`+digest+`"}
---
apiVersion: writ.dev/v1alpha1
kind: NodeImage
metadata: {name: b}
spec: {version: 1.2.4, source: {url: "https://example.com/b"}, digest: "`+digest+`"}
---
apiVersion: writ.dev/v1alpha1
kind: NodePool
metadata: {name: workers}
spec: {selector: {}, image: `+image+`}
`)}
	}
	w := world{t, client.NewFake()}
	for _, name := range []string{"w1", "w2"} {
		w.fake.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.ImageAnnotation: "1.2.3"}}})
	}
	if p := w.apply(manifests("a")); len(p.Consequences) != 0 {
		t.Errorf("%+v", p.Consequences)
	}
	in := w.input(manifests("b"))
	want := Consequence{Object: "NodePool/workers", Kind: "Reboot", Message: "2 nodes of pool workers download writ 1.2.4 and reboot one after another"}
	if p := Compute(in); len(p.Consequences) != 1 || p.Consequences[0] != want {
		t.Errorf("%+v", p.Consequences)
	}
	in.Live = onlyGet{in.Live}
	if p := Compute(in); len(p.Consequences) != 0 {
		t.Errorf("%+v", p.Consequences)
	}
}

// onlyGet is a Live that cannot list.
type onlyGet struct{ Live }
