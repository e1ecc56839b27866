package update

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// catalog are the images there are.
type catalog map[string]Image

func (c catalog) Get(_ context.Context, name string) (Image, error) {
	i, ok := c[name]
	if !ok {
		return Image{}, fmt.Errorf("read NodeImage %s: not found", name)
	}
	return i, nil
}

// world is a node and those who give it orders.
type world struct {
	t      *testing.T
	api    *client.Fake
	images catalog
	broken map[string]bool // names of images that do not become well

	mu     sync.Mutex
	phases []string // that were told, in order
	last   string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, api: client.NewFake(), images: catalog{}, broken: map[string]bool{}}
	w.api.Put(&corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"other": "x"}}})
	err := w.api.Cache().Subscribe(t.Context(), schema.ResourceFor[*corev1.Node](), func(e client.Event) {
		p := e.Object.(*corev1.Node).Annotations[v1alpha1.UpdatePhaseAnnotation]
		w.mu.Lock()
		defer w.mu.Unlock()
		if p != "" && p != w.last {
			w.phases, w.last = append(w.phases, p), p
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// told are the phases since the last call.
func (w *world) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := strings.Join(w.phases, " ")
	w.phases = nil
	return s
}

func (w *world) annotate(pairs ...string) {
	w.t.Helper()
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		v := "null"
		if pairs[i+1] != "" {
			v = fmt.Sprintf("%q", pairs[i+1])
		}
		fmt.Fprintf(&b, ",%q:%s", pairs[i], v)
	}
	_, err := w.api.Patch(w.t.Context(), schema.ResourceFor[*corev1.Node](), schema.Key{Name: "n1"}, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{`+b.String()[1:]+`}}}`), client.WriteOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// order tells the node what it shall run; "" takes the order away.
func (w *world) order(image, arguments string) {
	w.t.Helper()
	w.annotate(v1alpha1.DesiredImageAnnotation, image, v1alpha1.DesiredKernelArgumentsAnnotation, arguments, v1alpha1.RebootAnnotation, "")
}

func (w *world) reboot(image string) {
	w.t.Helper()
	w.annotate(v1alpha1.RebootAnnotation, image)
}

func (w *world) node() map[string]string {
	n, err := client.Get[*corev1.Node](w.t.Context(), w.api, schema.Key{Name: "n1"})
	if err != nil {
		w.t.Fatal(err)
	}
	return n.Annotations
}

// await waits, at most two hours of the bubble's time, until the node tells a
// phase and an image.
func (w *world) await(phase v1alpha1.UpdatePhase, image string) {
	w.t.Helper()
	for range 2 * 60 * 60 {
		synctest.Wait()
		if n := w.node(); n[v1alpha1.UpdatePhaseAnnotation] == string(phase) && n[v1alpha1.ImageAnnotation] == image {
			return
		}
		time.Sleep(time.Second)
	}
	w.t.Fatalf("not %s with %s: %v", phase, image, w.node())
}

// stays sees that nothing more happens.
func (w *world) stays(phase v1alpha1.UpdatePhase) {
	w.t.Helper()
	w.await(phase, w.node()[v1alpha1.ImageAnnotation])
	w.told()
	time.Sleep(30 * time.Minute)
	synctest.Wait()
	if got := w.told(); got != "" {
		w.t.Errorf("did not stay %s: %s", phase, got)
	}
}

func (w *world) expect(told string) {
	w.t.Helper()
	if got := w.told(); got != told {
		w.t.Errorf("told %s, want %s", got, told)
	}
}

func (w *world) failed(image, message string) {
	w.t.Helper()
	n := w.node()
	if n[v1alpha1.UpdateFailedAnnotation] != image || !strings.Contains(n[v1alpha1.UpdateMessageAnnotation], message) {
		w.t.Errorf("failed %q: %q, want %q: %q", n[v1alpha1.UpdateFailedAnnotation], n[v1alpha1.UpdateMessageAnnotation], image, message)
	}
}

// suite is what a node answers to orders, whoever it is. start begins a node
// that runs 4.0.0 and has heard of v4, v5 and v6; it is called in a bubble.
func suite(t *testing.T, start func(*world)) {
	const (
		idle, staged, failed = v1alpha1.UpdateIdle, v1alpha1.UpdateStaged, v1alpha1.UpdateFailed
		wholeWay             = "Downloading Writing Staged"
		reboot               = "Rebooting Trying Idle"
	)
	for name, test := range map[string]func(*world){
		"idle": func(w *world) {
			w.stays(idle)
			n := w.node()
			if n["other"] != "x" {
				w.t.Error("an annotation of somebody else is gone")
			}
			for _, key := range []string{v1alpha1.KernelArgumentsAnnotation, v1alpha1.UpdateFailedAnnotation} {
				if _, ok := n[key]; ok {
					w.t.Errorf("%s is there", key)
				}
			}
		},
		"update": func(w *world) {
			w.order("v5", "")
			w.await(staged, "4.0.0")
			w.expect("Idle " + wholeWay)
			w.stays(staged)
			w.reboot("v5")
			w.await(idle, "5.0.0")
			w.expect(reboot)
			w.order("", "")
			w.stays(idle)
		},
		"back": func(w *world) {
			w.order("v5", "")
			w.await(staged, "4.0.0")
			w.reboot("v5")
			w.await(idle, "5.0.0")
			w.order("", "")
			w.stays(idle)
			w.order("v4", "")
			w.await(staged, "5.0.0")
			w.expect("Staged") // nothing was fetched
			w.reboot("v4")
			w.await(idle, "4.0.0")
		},
		"failure": func(w *world) {
			w.broken["v5"] = true
			w.order("v5", "")
			w.await(staged, "4.0.0")
			w.told()
			w.reboot("v5")
			w.await(failed, "4.0.0")
			w.failed("v5", "5.0.0 was started 3 times and did not become well, so 4.0.0 runs again")
			w.reboot("")
			w.stays(failed)
			// Another one may come.
			w.order("", "")
			w.await(idle, "4.0.0")
			w.failed("", "4.0.0 runs")
			w.order("v6", "")
			w.await(staged, "4.0.0")
			w.reboot("v6")
			w.await(idle, "6.0.0")
			// And the same again, when it is ordered again.
			w.broken["v5"] = false
			w.order("v5", "")
			w.await(staged, "6.0.0")
			w.reboot("v5")
			w.await(idle, "5.0.0")
		},
		"withdrawn": func(w *world) {
			w.order("v5", "")
			w.await(staged, "4.0.0")
			w.order("", "")
			w.await(idle, "4.0.0")
			w.stays(idle)
		},
		"not staged": func(w *world) {
			w.annotate(v1alpha1.DesiredImageAnnotation, "v5", v1alpha1.RebootAnnotation, "v6")
			w.await(failed, "4.0.0")
			w.failed("v6", "asked to reboot into v6, while v5 is to be staged")
			w.order("", "")
			w.await(idle, "4.0.0")
			w.annotate(v1alpha1.DesiredImageAnnotation, "v5", v1alpha1.RebootAnnotation, "v5")
			w.await(failed, "4.0.0")
			w.failed("v5", "asked to reboot into 5.0.0, which is not staged")
		},
		"unknown": func(w *world) {
			w.order("v9", "")
			w.stays(idle)
			w.failed("", "read NodeImage v9: not found")
			w.images["v9"] = w.images["v5"]
			w.order("", "")
			w.order("v5", "")
			w.await(staged, "4.0.0")
		},
		"kernel arguments": func(w *world) {
			w.order("v4", "debug x=1")
			w.await(staged, "4.0.0")
			w.expect("Idle Staged")
			w.reboot("v4")
			w.await(idle, "4.0.0")
			if got := w.node()[v1alpha1.KernelArgumentsAnnotation]; got != v1alpha1.KernelArgumentsHash("debug x=1") {
				w.t.Errorf("kernel arguments %q", got)
			}
			w.order("", "")
			w.stays(idle)
			w.order("v5", "debug x=2")
			w.await(staged, "4.0.0")
			w.reboot("v5")
			w.await(idle, "5.0.0")
			if got := w.node()[v1alpha1.KernelArgumentsAnnotation]; got != v1alpha1.KernelArgumentsHash("debug x=2") {
				w.t.Errorf("kernel arguments %q", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				start(w)
				w.await(idle, "4.0.0")
				test(w)
			})
		})
	}
}

func TestFake(t *testing.T) {
	suite(t, func(w *world) {
		for _, v := range []string{"4", "5", "6"} {
			w.images["v"+v] = Image{Name: "v" + v, Version: v + ".0.0"}
		}
		f := NewFake(FakeConfig{Client: w.api, Cache: w.api.Cache(), Images: w.images, Version: "4.0.0", Takes: 8 * time.Second,
			Nodes: func(name string) bool { return name == "n1" },
			Fail: func(_ string, i Image) string {
				if w.broken[i.Name] {
					return "it is broken"
				}
				return ""
			}})
		run(w.t, f.Run)
	})
}

// run runs something until the test ends.
func run(t *testing.T, fn func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// Thousands of nodes are one fake's.
func TestFakeMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 2000
		api := client.NewFake()
		for i := range count {
			api.Put(&corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("n%d", i), Annotations: map[string]string{v1alpha1.DesiredImageAnnotation: "v5"}}})
		}
		run(t, NewFake(FakeConfig{Client: api, Cache: api.Cache(), Images: catalog{"v5": {Name: "v5", Version: "5"}}, Version: "4", Nodes: func(string) bool { return true }}).Run)
		time.Sleep(time.Minute)
		synctest.Wait()
		nodes, err := client.ListAll[*corev1.Node](t.Context(), api, client.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(nodes, func(n *corev1.Node) bool {
			return n.Annotations[v1alpha1.UpdatePhaseAnnotation] != string(v1alpha1.UpdateStaged)
		}); i >= 0 {
			t.Errorf("%s: %v", nodes[i].Name, nodes[i].Annotations)
		}
	})
}
