package scheduler

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

const (
	// binders is how many batches of bindings are written at a time: one waits
	// for the disk while the other is prepared.
	binders = 2
	// batch is how many bindings one transaction takes at most.
	batch = 64
	// reporters write refusals, which nobody waits for.
	reporters = 2
)

// binding is a pod and the node that it has been given.
type binding struct {
	pod  *waiting
	node string
}

// writer writes what the scheduler has decided, so that deciding need not wait.
// Of each pod it keeps the newest report only.
type writer struct {
	cfg  Config
	post func(any)

	mu       sync.Mutex
	bindings []binding
	reports  map[schema.Key]report
	placing  map[schema.Key]bool // pods whose binding is asked for and not answered
	toBind   chan struct{}
	toReport chan struct{}
}

func newWriter(cfg Config, post func(any)) *writer {
	return &writer{
		cfg: cfg, post: post, reports: map[schema.Key]report{}, placing: map[schema.Key]bool{},
		toBind: make(chan struct{}, binders), toReport: make(chan struct{}, reporters),
	}
}

// bind asks for a binding; its result is posted. What was to be said about the
// pod while it had no node is not true any more.
func (w *writer) bind(b binding) {
	w.mu.Lock()
	delete(w.reports, b.pod.key)
	w.placing[b.pod.key] = true
	w.bindings = append(w.bindings, b)
	w.mu.Unlock()
	signal(w.toBind)
}

// report asks for a refusal to be written down.
func (w *writer) report(r report) {
	w.mu.Lock()
	key := schema.KeyOf(r.pod)
	if old, ok := w.reports[key]; ok {
		r.changed = r.changed || old.changed
		if r.preemption.node == nil {
			r.preemption = old.preemption
		}
	}
	w.reports[key] = r
	w.mu.Unlock()
	signal(w.toReport)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *writer) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range binders {
		g.Go(func() error { return serve(ctx, w.toBind, w.bindSome) })
	}
	for range reporters {
		g.Go(func() error { return serve(ctx, w.toReport, w.reportOne) })
	}
	return g.Wait()
}

// serve calls work until it says that nothing is left, each time that it is
// asked to.
func serve(ctx context.Context, asked <-chan struct{}, work func(context.Context) bool) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-asked:
		}
		for work(ctx) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
}

func (w *writer) takeBindings() []binding {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(batch, len(w.bindings))
	out := w.bindings[:n:n]
	w.bindings = w.bindings[n:]
	if len(w.bindings) == 0 {
		w.bindings = nil
	}
	return out
}

// bindSome writes one batch of bindings; false when there was none.
func (w *writer) bindSome(ctx context.Context) bool {
	todo := w.takeBindings()
	if len(todo) == 0 {
		return false
	}
	t, ok := w.cfg.Client.(client.Transactor)
	if !ok || len(todo) == 1 {
		for _, b := range todo {
			w.done(ctx, b, w.bindOne(ctx, b))
		}
		return true
	}
	w.bindAll(ctx, t, todo)
	return true
}

// bindAll writes bindings in one transaction. Those that are refused are taken
// out, and the others tried again without them.
func (w *writer) bindAll(ctx context.Context, t client.Transactor, todo []binding) {
	for len(todo) > 0 {
		ops := make([]client.Op, len(todo))
		for i, b := range todo {
			ops[i] = client.Op{Verb: client.VerbCreate, Resource: podResource, Key: b.pod.key, Subresource: "binding", Object: object(b)}
		}
		_, err := t.Transact(ctx, ops, false)
		var refused *client.TransactionError
		if !errors.As(err, &refused) || len(refused.Errs) == 0 {
			for _, b := range todo {
				w.done(ctx, b, err)
			}
			return
		}
		var rest []binding
		for i, b := range todo {
			if e := refused.Errs[i]; e != nil {
				w.done(ctx, b, e)
			} else {
				rest = append(rest, b)
			}
		}
		todo = rest
	}
}

func (w *writer) bindOne(ctx context.Context, b binding) error {
	_, err := w.cfg.Client.Create(ctx, podResource, object(b), client.WriteOptions{Subresource: "binding", Key: b.pod.key})
	return err
}

func (w *writer) done(ctx context.Context, b binding, err error) {
	w.mu.Lock()
	delete(w.placing, b.pod.key)
	w.mu.Unlock()
	if ctx.Err() == nil {
		w.post(bindResult{b, err})
	}
}

var podResource = schema.ResourceFor[*corev1.Pod]()

func object(b binding) *corev1.Binding {
	return &corev1.Binding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
		ObjectMeta: metav1.ObjectMeta{Namespace: b.pod.key.Namespace, Name: b.pod.key.Name, UID: b.pod.pod.UID},
		Target:     corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: b.node},
	}
}
