package cluster

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Each of several servers holds a lease that says where it is. One whose lease
// is not renewed is taken out of the Service kubernetes (as upstream's lease
// endpoint reconciler, with its times).
const (
	presenceLabel   = "writ.dev/server"
	presenceAddress = "writ.dev/address"
	presencePrefix  = "writ-server-"
	presenceRenew   = 5 * time.Second
	presenceLife    = 15 * time.Second
)

func presenceKey(name string) schema.Key {
	return schema.Key{Namespace: metav1.NamespaceSystem, Name: presencePrefix + name}
}

// presence is where a server is, as its lease says.
type presence struct {
	address netip.AddrPort
	live    bool
	node    string // UID of the Node of its machine; "" when that never was one
}

// presences says who is there. It goes by when this process has seen a lease
// change: the clocks of machines differ.
type presences struct {
	mu   sync.Mutex
	seen map[string]sighting
}

type sighting struct {
	version string
	at      time.Time
}

// all are the servers by name. One that was not seen before counts as live.
func (p *presences) all(cache client.Cache, now time.Time) map[string]presence {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[string]sighting{}
	out := map[string]presence{}
	for _, l := range client.CachedList[*coordinationv1.Lease](cache, metav1.NamespaceSystem) {
		at, err := netip.ParseAddrPort(l.Annotations[presenceAddress])
		if _, ours := l.Labels[presenceLabel]; !ours || err != nil || l.Spec.HolderIdentity == nil {
			continue
		}
		s, ok := p.seen[l.Name]
		if !ok || s.version != l.ResourceVersion {
			s = sighting{l.ResourceVersion, now}
		}
		next[l.Name] = s
		out[*l.Spec.HolderIdentity] = presence{at, now.Sub(s.at) < presenceLife, l.Annotations[presenceNode]}
	}
	p.seen = next
	return out
}

// keepPresence renews the lease of this server until ctx ends.
func (p *ControlPlane) keepPresence(ctx context.Context) error {
	node := ""
	for said := false; ; {
		node = p.ownNode(node)
		err := p.renewPresence(ctx, node)
		if err != nil && ctx.Err() == nil && !said {
			p.log("members").Warn("the lease of this server is not renewed", "err", err)
		}
		said = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(presenceRenew):
		}
	}
}

func (p *ControlPlane) renewPresence(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, presenceLife)
	defer cancel()
	c, key := p.as(identity.APIServer), presenceKey(p.member.Name)
	now, life := metav1.NewMicroTime(time.Now()), int32(presenceLife/time.Second)
	l := &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{presenceLabel: ""},
			Annotations: map[string]string{presenceAddress: p.advertised().String()}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &p.member.Name, LeaseDurationSeconds: &life, RenewTime: &now},
	}
	if node != "" {
		l.Annotations[presenceNode] = node
	}
	have, ok := client.Cached[*coordinationv1.Lease](p.registry.Cache(), key)
	if !ok {
		_, err := client.Create(ctx, c, l, client.WriteOptions{})
		return err
	}
	l.ResourceVersion, l.UID = have.ResourceVersion, have.UID
	_, err := client.Update(ctx, c, l, client.WriteOptions{})
	return err
}

func (p *ControlPlane) forgetPresence(ctx context.Context, name string) error {
	err := client.Delete[*coordinationv1.Lease](ctx, p.as(identity.APIServer), presenceKey(name), client.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// endpoints are where pods reach API servers: at this one when it is alone, and
// at all that are there.
func (p *ControlPlane) endpoints() []netip.AddrPort {
	self := p.advertised()
	if p.member == nil {
		return []netip.AddrPort{self}
	}
	all := []netip.AddrPort{self}
	for name, at := range p.presences.all(p.registry.Cache(), time.Now()) {
		if at.live && name != p.member.Name && at.address != self {
			all = append(all, at.address)
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return all
}

// serverURLs are where machines reach the API servers that are there; nil alone.
func (p *ControlPlane) serverURLs() []string {
	if p.member == nil {
		return nil
	}
	var urls []string
	for _, at := range p.endpoints() {
		urls = append(urls, "https://"+at.String())
	}
	return urls
}

const controlPlaneRole = "node-role.kubernetes.io/control-plane"

// keepRole has the Node of this machine say that it is a server's. A node may
// not say so of itself.
func (p *ControlPlane) keepRole(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	err := p.registry.Cache().Subscribe(ctx, schema.ResourceFor[*corev1.Node](), func(ev client.Event) {
		if ev.Object != nil && ev.Object.GetName() == p.cfg.NodeName {
			if _, has := ev.Object.GetLabels()[controlPlaneRole]; !has {
				nudge(wake)
			}
		}
	})
	if err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"labels":{"` + controlPlaneRole + `":""}}}`)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
		_, err := p.as(identity.APIServer).Patch(ctx, schema.ResourceFor[*corev1.Node](), schema.Key{Name: p.cfg.NodeName}, types.MergePatchType, patch, client.WriteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			p.log("members").Warn("the node of this server is not marked as one", "err", err)
		}
	}
}

// endpointsAgain is how often the endpoints are looked at: leases that are not
// renewed are no events. 0: never.
func (p *ControlPlane) endpointsAgain() time.Duration {
	if p.member == nil {
		return 0
	}
	return presenceRenew
}
