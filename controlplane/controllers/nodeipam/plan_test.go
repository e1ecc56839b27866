package nodeipam

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

func TestFree(t *testing.T) {
	used := func(cidrs ...string) []string { return cidrs }
	for _, c := range []struct {
		all  string
		bits int
		used []string
		want string
	}{
		{"10.244.0.0/16", 24, nil, "10.244.0.0/24"},
		{"10.244.0.0/16", 24, used("10.244.0.0/24", "10.244.2.0/24"), "10.244.1.0/24"},
		{"10.244.0.0/16", 24, used("10.244.0.0/23"), "10.244.2.0/24"},
		{"10.244.0.0/16", 24, used("10.244.0.128/25"), "10.244.1.0/24"},
		{"10.244.0.0/23", 24, used("10.244.0.0/24", "10.244.1.0/24"), ""},
		{"10.244.0.0/24", 24, nil, "10.244.0.0/24"},
		{"10.244.0.0/25", 24, nil, ""},
	} {
		r := newRanges(netip.MustParsePrefix(c.all), c.bits)
		for _, u := range c.used {
			r.use(netip.MustParsePrefix(u))
		}
		got, ok := r.free()
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("a /%d of %s beside %v: %v %v, want %q", c.bits, c.all, c.used, got, ok, c.want)
		}
	}
}

// The default has a range of its own for each of a thousand nodes, beside those
// of nodes that joined when the cluster was a /16.
func TestThousandNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake()
		for i := range 1100 {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}
			if i < 100 {
				n.Spec.PodCIDR = fmt.Sprintf("10.244.%d.0/24", i*2)
			}
			f.Put(n)
		}
		controllertest.Start(t, f, New(Config{Tools: controllertest.Tools(f)}), 1)
		time.Sleep(time.Second)
		seen := map[string]bool{}
		for _, n := range client.CachedList[*corev1.Node](f.Cache(), "") {
			if p := n.Spec.PodCIDR; p != "" && seen[p] {
				t.Errorf("%s twice", p)
			} else if p != "" {
				seen[p] = true
			}
		}
		if len(seen) != 1024 || !seen["10.244.1.0/24"] || !seen["10.247.255.0/24"] {
			t.Errorf("%d ranges", len(seen))
		}
		// One that goes makes room for one that waits, whose retries are slow.
		if err := f.Delete(t.Context(), schema.ResourceFor[*corev1.Node](), schema.Key{Name: "n0"}, client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		got := 0
		for _, n := range client.CachedList[*corev1.Node](f.Cache(), "") {
			if n.Spec.PodCIDR != "" {
				got++
			}
		}
		if got != 1024 {
			t.Errorf("%d nodes have a range after one has gone", got)
		}
	})
}

func BenchmarkAssign(b *testing.B) {
	for b.Loop() {
		f := client.NewFake()
		for i := range 250 {
			f.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}})
		}
		c := New(Config{Tools: controllertest.Tools(f)})
		for i := range 250 {
			if _, err := c.Reconcile(b.Context(), schema.Key{Name: fmt.Sprint("n", i)}); err != nil {
				b.Fatal(err)
			}
		}
	}
}
