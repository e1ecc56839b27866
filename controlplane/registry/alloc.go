package registry

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// The texts of a refused allocation.
var (
	errIPTaken    = errors.New("provided IP is already allocated")
	errPortTaken  = errors.New("provided port is already allocated")
	errNoNetwork  = errors.New("the provided network does not match the current range")
	errRangesFull = errors.New("range is full")
)

// allocator gives out ClusterIPs and node ports. Each has an object of its own
// that is stored with the Service and deleted with it, in one transaction that
// demands that there was none: of two API servers over one etcd only one can
// have it, and the other chooses again. An address is an IPAddress, as upstream
// has it (KEP-1880); for ports upstream has no kind, see portClaims.
//
// It keeps nothing but what the transactions of this process are about to
// claim, so that writers side by side do not choose the same.
type allocator struct {
	cidr  netip.Prefix
	ports [2]int

	mu     sync.Mutex
	flight map[string]struct{}

	mending sync.Mutex
	mended  atomic.Bool
}

// claims are what one transaction is about to claim.
type claims struct{ flight []string }

func newAllocator(cidr netip.Prefix, ports [2]int) *allocator {
	return &allocator{cidr: cidr.Masked(), ports: ports, flight: map[string]struct{}{}}
}

// choose says that a transaction wants what nobody of this process wants; false
// when another one does.
func (a *allocator) choose(c *claims, what string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, taken := a.flight[what]; taken {
		return false
	}
	a.flight[what] = struct{}{}
	c.flight = append(c.flight, what)
	return true
}

// settle ends a transaction: what it has claimed is in the store, or free.
func (a *allocator) settle(c *claims) {
	if len(c.flight) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, what := range c.flight {
		delete(a.flight, what)
	}
}

// ready makes sure that claims are kept, and that the Services of a cluster
// that has known none so far have theirs. It asks for another try, over a newer
// state of the store, when the overlay has been made before that.
func (a *allocator) ready(ctx context.Context, s *store.Store, o *overlay) error {
	if a.mended.Load() && o.base.Keeps(portClaims) {
		return nil
	}
	a.mending.Lock()
	defer a.mending.Unlock()
	if !a.mended.Load() {
		if err := s.Add(ctx, portClaims); err != nil {
			return fmt.Errorf("keep the claims of node ports: %w", err)
		}
		if err := mend(ctx, s); err != nil {
			return fmt.Errorf("claim what the Services have: %w", err)
		}
		a.mended.Store(true)
	}
	return &store.ConflictError{Resource: portClaims}
}

// mend claims what Services have without a claim: they were made by an older
// release, or somebody has deleted the claim.
func mend(ctx context.Context, s *store.Store) error {
	for it := range s.Snapshot(schema.ResourceFor[*corev1.Service]()).All() {
		svc := it.Object.(*corev1.Service)
		var writes []store.Write
		if ip, ok := addressOf(svc); ok {
			writes = append(writes, store.Write{Resource: ipAddresses, Key: addressKey(ip), Object: addressClaim(ip, svc)})
		}
		for _, p := range portsOf(svc) {
			writes = append(writes, store.Write{Resource: portClaims, Key: portKey(p), Object: portClaim(p, svc)})
		}
		for _, w := range writes {
			if s.Get(w.Resource, w.Key) != nil {
				continue
			}
			var conflict *store.ConflictError
			if _, err := s.Txn(ctx, []store.Write{w}); err != nil && !errors.As(err, &conflict) {
				return err
			}
		}
	}
	return nil
}

// keepClaims makes the claims of an overlay those that the new state of a
// Service needs: what it has besides old is claimed, what it has no longer is
// given back, and what it has kept is claimed where that was lost. svc is nil
// for a Service that goes.
func keepClaims(o *overlay, svc, old *corev1.Service) {
	is, has := addressOf(svc)
	if was, had := addressOf(old); had && was != is {
		drop(o, ipAddresses, addressKey(was))
	}
	if has && o.get(ipAddresses, addressKey(is)) == nil {
		o.put(ipAddresses, addressKey(is), addressClaim(is, svc))
	}
	keeps := map[int32]bool{}
	for _, p := range portsOf(svc) {
		keeps[p] = true
		if o.get(portClaims, portKey(p)) == nil {
			o.put(portClaims, portKey(p), portClaim(p, svc))
		}
	}
	for _, p := range portsOf(old) {
		if !keeps[p] {
			drop(o, portClaims, portKey(p))
		}
	}
}

func drop(o *overlay, r *schema.Resource, key schema.Key) {
	if last := o.get(r, key); last != nil {
		o.remove(r, key, last)
	}
}
