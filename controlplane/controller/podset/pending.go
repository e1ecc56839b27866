package podset

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// LagCheck is how long a created pod may be missing in the cache before the
// server is asked what became of it, and when to look again.
const LagCheck = time.Second

// Pending remembers an owner's own writes until its cache shows them. An
// owner that counts pods while some are pending would count wrong, and create
// or delete too many. Over a server's own copy nothing is ever pending.
//
// The zero value is ready for use; a nil *Pending remembers nothing.
type Pending struct {
	mu     sync.Mutex
	owners map[types.UID]map[types.UID]write
}

type write struct {
	key     schema.Key
	deleted bool
	at      time.Time
}

// Created remembers that a pod was created for an owner.
func (p *Pending) Created(owner schema.Object, pod *corev1.Pod) { p.remember(owner, pod, false) }

// Deleted remembers that a pod of an owner was asked to end.
func (p *Pending) Deleted(owner schema.Object, pod *corev1.Pod) { p.remember(owner, pod, true) }

func (p *Pending) remember(owner schema.Object, pod *corev1.Pod, deleted bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owners == nil {
		p.owners = map[types.UID]map[types.UID]write{}
	}
	if p.owners[owner.GetUID()] == nil {
		p.owners[owner.GetUID()] = map[types.UID]write{}
	}
	p.owners[owner.GetUID()][pod.UID] = write{key: schema.KeyOf(pod), deleted: deleted, at: time.Now()}
}

// Settled says that the cache shows all writes of the owner. A pod that stays
// away may have been deleted by another before the cache saw it; after a while
// the server is asked.
func (p *Pending) Settled(ctx context.Context, c client.Reader, cache client.Cache, owner schema.Object) (bool, error) {
	for uid, w := range p.open(owner.GetUID()) {
		pod, ok := client.Cached[*corev1.Pod](cache, w.key)
		there := ok && pod.UID == uid
		settled := there
		if w.deleted {
			settled = !there || pod.DeletionTimestamp != nil
		} else if !there && time.Since(w.at) >= LagCheck {
			gone, err := goneFrom(ctx, c, w.key, uid)
			if err != nil {
				return false, err
			}
			settled = gone
		}
		if settled {
			p.forget(owner.GetUID(), uid)
		}
	}
	return len(p.open(owner.GetUID())) == 0, nil
}

// open returns the writes of an owner that no cache has shown yet.
func (p *Pending) open(owner types.UID) map[types.UID]write {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.owners[owner])
}

func (p *Pending) forget(owner, pod types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.owners[owner], pod)
	if len(p.owners[owner]) == 0 {
		delete(p.owners, owner)
	}
}

// goneFrom asks the server whether a pod is no more.
func goneFrom(ctx context.Context, c client.Reader, key schema.Key, uid types.UID) (bool, error) {
	pod, err := client.Get[*corev1.Pod](ctx, c, key)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return pod.UID != uid, nil
}
