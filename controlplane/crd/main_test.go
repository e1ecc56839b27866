package crd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

var crds = schema.ResourceFor[*apiextensionsv1.CustomResourceDefinition]()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a registry over a real store with a publisher beside it.
type world struct {
	t       *testing.T
	catalog *schema.Live
	c       *client.LocalClient
	p       *Publisher
	stop    func()
	// refuse has deletions of instances refused; refused counts them, and often is
	// closed when it was done twenty times.
	refuse  atomic.Bool
	refused int
	often   chan struct{}
	log     lines
}

// lines is a log that is read while it is written.
type lines struct {
	mu sync.Mutex
	strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

// refusal refuses the deletion of instances while a world says so.
type refusal struct{ w *world }

func (refusal) Mutate(context.Context, *registry.Attributes) error { return nil }

func (r refusal) Validate(_ context.Context, a *registry.Attributes) error {
	if a.Verb != "delete" || isBuiltin(a.Resource) || !r.w.refuse.Load() {
		return nil
	}
	if r.w.refused++; r.w.refused == 20 {
		close(r.w.often)
	}
	return apierrors.NewForbidden(a.Resource.GroupResource(), a.Key.Name, errors.New("kept is kept"))
}

func open(t *testing.T, dir string, hooks *Webhooks) *world {
	t.Helper()
	w := &world{t: t, often: make(chan struct{}), catalog: &schema.Live{}}
	log := slog.New(slog.NewTextHandler(io.MultiWriter(os.Stderr, &w.log), &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := store.New(store.Config{Dir: dir, Log: log, Tick: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.Run(ctx) }()
	<-s.Ready()
	g := registry.New(registry.Config{Store: s, Log: log, Catalog: w.catalog, Admission: []registry.Admission{Admission{}, refusal{w}}})
	w.c = client.Local(g, &user.DefaultInfo{Name: "system:apiserver"}, "apiserver")
	w.p = New(Config{Client: w.c, Cache: g.Cache(), Store: s, Catalog: w.catalog, Webhooks: hooks, Log: log, Retry: 20 * time.Millisecond})
	go func() { ended <- w.p.Run(ctx) }()
	<-w.p.Ready()
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("ended: %v", err)
			}
		}
	}
	t.Cleanup(w.stop)
	return w
}

func parse(t testing.TB, text string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	def := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(text), def); err != nil {
		t.Fatal(err)
	}
	return def
}

const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets, shortNames: [gd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, default: 3}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func (w *world) create(def *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	w.t.Helper()
	o, err := w.c.Create(w.t.Context(), crds, def, client.WriteOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return o.(*apiextensionsv1.CustomResourceDefinition)
}

// until waits until the definition is as it should be; a nil one is gone.
func (w *world) until(name, what string, ok func(*apiextensionsv1.CustomResourceDefinition) bool) *apiextensionsv1.CustomResourceDefinition {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	watch, err := w.c.Watch(ctx, crds, client.WatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer watch.Stop()
	for {
		o, err := w.c.Get(ctx, crds, schema.Key{Name: name})
		def, _ := o.(*apiextensionsv1.CustomResourceDefinition)
		if err != nil && !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
		if ok(def) {
			return def
		}
		select {
		case <-watch.Events():
		case <-ctx.Done():
			w.t.Fatalf("%s is not %s: %+v", name, what, def)
		}
	}
}

func (w *world) established(name string) *apiextensionsv1.CustomResourceDefinition {
	w.t.Helper()
	return w.until(name, "established", func(def *apiextensionsv1.CustomResourceDefinition) bool {
		return def != nil && isTrue(def, apiextensionsv1.Established)
	})
}

func (w *world) row(group, version, plural string) *schema.Resource {
	for _, r := range w.catalog.Load().Custom() {
		if r.Group == group && r.Version == version && r.Plural == plural {
			return r
		}
	}
	return nil
}

func gadget(version, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/" + version, "kind": "Gadget",
		"metadata": map[string]any{"name": name, "namespace": "default"}, "spec": map[string]any{},
	}}
}
