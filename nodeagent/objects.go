package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// objects follows the ConfigMaps and Secrets that pods of this node refer to,
// each by a watch of its own: a node may read only those.
type objects struct {
	client  client.Reader
	log     *slog.Logger
	changed func(podUID string)

	mu      sync.Mutex
	ctx     context.Context // of run; nil before
	entries map[objectKey]*entry
	pods    map[string]map[objectKey]bool
	alive   sync.WaitGroup
}

type objectKey struct {
	resource *schema.Resource
	schema.Key
}

// entry is one object that is followed.
type entry struct {
	cancel context.CancelFunc
	synced chan struct{} // closed when object is known for the first time
	once   sync.Once

	mu     sync.Mutex
	object schema.Object // nil: it does not exist
	err    error         // of the last attempt to follow it
}

func newObjects(c client.Reader, log *slog.Logger) *objects {
	return &objects{client: c, log: log, entries: map[objectKey]*entry{}, pods: map[string]map[objectKey]bool{}}
}

// run follows objects until ctx ends.
func (o *objects) run(ctx context.Context) error {
	o.mu.Lock()
	o.ctx = ctx
	for k, e := range o.entries {
		o.begin(k, e)
	}
	o.mu.Unlock()
	<-ctx.Done()
	o.alive.Wait()
	return nil
}

// begin follows an entry. The caller holds mu.
func (o *objects) begin(k objectKey, e *entry) {
	ctx, cancel := context.WithCancel(o.ctx)
	e.cancel = cancel
	o.alive.Go(func() { o.follow(ctx, k, e) })
}

// register follows what a pod refers to.
func (o *objects) register(p *corev1.Pod) {
	want := references(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	old := o.pods[string(p.UID)]
	o.pods[string(p.UID)] = want
	for k := range want {
		if o.entries[k] != nil {
			continue
		}
		e := &entry{synced: make(chan struct{})}
		o.entries[k] = e
		if o.ctx != nil {
			o.begin(k, e)
		}
	}
	o.release(old)
}

// forget ends what only this pod referred to.
func (o *objects) forget(uid string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old := o.pods[uid]
	delete(o.pods, uid)
	o.release(old)
}

// keep forgets all pods but some.
func (o *objects) keep(uids map[string]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for uid, old := range o.pods {
		if !uids[uid] {
			delete(o.pods, uid)
			o.release(old)
		}
	}
}

// release ends entries that no pod refers to. The caller holds mu.
func (o *objects) release(keys map[objectKey]bool) {
	for k := range keys {
		used := false
		for _, refs := range o.pods {
			used = used || refs[k]
		}
		if e := o.entries[k]; !used && e != nil {
			delete(o.entries, k)
			if e.cancel != nil {
				e.cancel()
			}
		}
	}
}

// follow keeps an entry up to date.
func (o *objects) follow(ctx context.Context, k objectKey, e *entry) {
	pause := 200 * time.Millisecond
	for ctx.Err() == nil {
		err := o.followOnce(ctx, k, e)
		if ctx.Err() != nil {
			return
		}
		e.mu.Lock()
		e.err = err
		e.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, 30*time.Second)
	}
}

func (o *objects) followOnce(ctx context.Context, k objectKey, e *entry) error {
	w, err := o.client.Watch(ctx, k.resource, client.WatchOptions{ListOptions: client.ListOptions{
		Namespace: k.Namespace, Fields: fields.OneTermEqualSelector("metadata.name", k.Name),
	}})
	if err != nil {
		return fmt.Errorf("watch %s %s: %w", k.resource, k.Key, err)
	}
	defer w.Stop()
	found := false
	for ev := range w.Events() {
		switch ev.Type {
		case client.Added, client.Modified:
			found = true
			o.set(k, e, ev.Object)
		case client.Deleted:
			o.set(k, e, nil)
		case client.Bookmark:
			if ev.InitialEventsEnd && !found {
				o.set(k, e, nil)
			}
		case client.Error:
			return ev.Err
		}
	}
	return errors.New("the watch has ended")
}

// set takes over the newest state and tells the pods that refer to it.
func (o *objects) set(k objectKey, e *entry, obj schema.Object) {
	e.mu.Lock()
	same := e.object == nil && obj == nil ||
		e.object != nil && obj != nil && e.object.GetResourceVersion() == obj.GetResourceVersion()
	e.object, e.err = obj, nil
	e.mu.Unlock()
	first := false
	e.once.Do(func() { close(e.synced); first = true })
	if first || same || o.changed == nil {
		return
	}
	var uids []string
	o.mu.Lock()
	for uid, refs := range o.pods {
		if refs[k] {
			uids = append(uids, uid)
		}
	}
	o.mu.Unlock()
	for _, uid := range uids {
		o.changed(uid)
	}
}

// ConfigMap returns a ConfigMap as it is now.
func (o *objects) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return lookup[*corev1.ConfigMap](ctx, o, namespace, name)
}

// Secret returns a Secret as it is now.
func (o *objects) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return lookup[*corev1.Secret](ctx, o, namespace, name)
}

// objectTimeout is how long to wait for the server to tell of an object.
const objectTimeout = 10 * time.Second

func lookup[T schema.Object](ctx context.Context, o *objects, namespace, name string) (T, error) {
	var none T
	r := schema.ResourceFor[T]()
	k := objectKey{r, schema.Key{Namespace: namespace, Name: name}}
	o.mu.Lock()
	e := o.entries[k]
	o.mu.Unlock()
	if e == nil {
		return client.Get[T](ctx, o.client, k.Key)
	}
	timer := time.NewTimer(objectTimeout)
	defer timer.Stop()
	select {
	case <-e.synced:
	case <-ctx.Done():
		return none, ctx.Err()
	case <-timer.C:
		e.mu.Lock()
		defer e.mu.Unlock()
		return none, fmt.Errorf("read %s %s: timed out waiting for the server: %w", r, k.Key, errors.Join(e.err))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.object == nil {
		return none, apierrors.NewNotFound(r.GroupResource(), name)
	}
	return e.object.(T), nil
}

// references lists what a pod is made from.
func references(p *corev1.Pod) map[objectKey]bool {
	out := map[objectKey]bool{}
	maps, secrets := schema.ResourceFor[*corev1.ConfigMap](), schema.ResourceFor[*corev1.Secret]()
	add := func(r *schema.Resource, name string) {
		if name != "" {
			out[objectKey{r, schema.Key{Namespace: p.Namespace, Name: name}}] = true
		}
	}
	for _, s := range p.Spec.ImagePullSecrets {
		add(secrets, s.Name)
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.ConfigMap != nil {
			add(maps, v.ConfigMap.Name)
		}
		if v.Secret != nil {
			add(secrets, v.Secret.SecretName)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				add(maps, s.ConfigMap.Name)
			}
			if s.Secret != nil {
				add(secrets, s.Secret.Name)
			}
		}
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			envReferences(&list[i], func(n string) { add(maps, n) }, func(n string) { add(secrets, n) })
		}
	}
	return out
}

func envReferences(c *corev1.Container, configMap, secret func(string)) {
	for _, f := range c.EnvFrom {
		if f.ConfigMapRef != nil {
			configMap(f.ConfigMapRef.Name)
		}
		if f.SecretRef != nil {
			secret(f.SecretRef.Name)
		}
	}
	for _, e := range c.Env {
		switch {
		case e.ValueFrom == nil:
		case e.ValueFrom.ConfigMapKeyRef != nil:
			configMap(e.ValueFrom.ConfigMapKeyRef.Name)
		case e.ValueFrom.SecretKeyRef != nil:
			secret(e.ValueFrom.SecretKeyRef.Name)
		}
	}
}
