package members

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// Each of several servers holds a lease that says where it is. One whose lease
// is not renewed is taken out of the Service kubernetes (as upstream's lease
// endpoint reconciler, with its times).
const (
	presenceLabel   = "writ.dev/server"
	presenceAddress = "writ.dev/address"
	presencePrefix  = "writ-server-"
	presenceLife    = 15 * time.Second
	// PresenceRenew is how often a lease is renewed.
	PresenceRenew = 5 * time.Second
	// presenceNode is the UID of the Node of a server's machine, on its lease: when
	// that Node is gone the server has left, if it does not answer.
	presenceNode = "writ.dev/node"
	// presenceRecord says that a server knows the record of the refs (refs.go).
	presenceRecord = "writ.dev/git-record"
)

func presenceKey(name string) schema.Key {
	return schema.Key{Namespace: metav1.NamespaceSystem, Name: presencePrefix + name}
}

// Presence is where a server is, as its lease says.
type Presence struct {
	Address netip.AddrPort
	Live    bool
	node    string // UID of the Node of its machine; "" when that never was one
	record  bool
}

// ErrNoLeader says that nobody leads whom this server reaches.
var ErrNoLeader = errors.New("no server leads now")

// Config is what a Roll and a Replica need of their server.
type Config struct {
	// Name of this server.
	Name  string
	Store *store.Store
	// Client writes in the name of the server itself.
	Client *client.LocalClient
	Cache  client.Cache
	// Address is where the others and pods reach this server.
	Address func() netip.AddrPort
	Log     *slog.Logger
}

// Roll says which servers there are. It goes by when this process has seen a lease
// change: the clocks of machines differ. A server that is alone has none: nil
// answers that nobody else is there.
type Roll struct {
	cfg  Config
	mu   sync.Mutex
	seen map[string]sighting
}

type sighting struct {
	version string
	at      time.Time
}

// NewRoll returns a roll; it starts nothing.
func NewRoll(cfg Config) *Roll { return &Roll{cfg: cfg} }

// Presences are the servers by name. One that was not seen before counts as live.
func (r *Roll) Presences() map[string]Presence {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, next, out := time.Now(), map[string]sighting{}, map[string]Presence{}
	for _, l := range client.CachedList[*coordinationv1.Lease](r.cfg.Cache, metav1.NamespaceSystem) {
		at, err := netip.ParseAddrPort(l.Annotations[presenceAddress])
		if _, ours := l.Labels[presenceLabel]; !ours || err != nil || l.Spec.HolderIdentity == nil {
			continue
		}
		s, ok := r.seen[l.Name]
		if !ok || s.version != l.ResourceVersion {
			s = sighting{l.ResourceVersion, now}
		}
		next[l.Name] = s
		_, record := l.Annotations[presenceRecord]
		out[*l.Spec.HolderIdentity] = Presence{Address: at, Live: now.Sub(s.at) < presenceLife, node: l.Annotations[presenceNode], record: record}
	}
	r.seen = next
	return out
}

// Endpoints are where API servers are reached: at self and at all others that are
// there.
func (r *Roll) Endpoints(self netip.AddrPort) []netip.AddrPort {
	all := []netip.AddrPort{self}
	for name, at := range r.Presences() {
		if at.Live && name != r.cfg.Name && at.Address != self {
			all = append(all, at.Address)
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return all
}

// Leader is where the server that leads the store is, when it is another one.
func (r *Roll) Leader(ctx context.Context) (netip.AddrPort, error) {
	if r == nil {
		return netip.AddrPort{}, ErrNoLeader
	}
	all, err := r.cfg.Store.Members(ctx)
	if err != nil {
		return netip.AddrPort{}, err
	}
	there := r.Presences()
	for _, m := range all {
		if at, ok := there[m.Name]; ok && m.Leader && !m.Self {
			return at.Address, nil
		}
	}
	return netip.AddrPort{}, ErrNoLeader
}

// Run renews the lease of this server until ctx ends.
func (r *Roll) Run(ctx context.Context) error {
	node := ""
	for said := false; ; {
		node = r.ownNode(node)
		err := r.renew(ctx, node)
		if err != nil && ctx.Err() == nil && !said {
			r.cfg.Log.Warn("the lease of this server is not renewed", "err", err)
		}
		said = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(PresenceRenew):
		}
	}
}

// ownNode is the UID of the Node of this machine, or of the one that it was while
// this process runs; "" when it never was one.
func (r *Roll) ownNode(had string) string {
	if n, ok := client.Cached[*corev1.Node](r.cfg.Cache, schema.Key{Name: r.cfg.Name}); ok {
		return string(n.UID)
	}
	return had
}

func (r *Roll) renew(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, presenceLife)
	defer cancel()
	key := presenceKey(r.cfg.Name)
	now, life := metav1.NewMicroTime(time.Now()), int32(presenceLife/time.Second)
	l := &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{presenceLabel: ""},
			Annotations: map[string]string{presenceAddress: r.cfg.Address().String(), presenceRecord: ""}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &r.cfg.Name, LeaseDurationSeconds: &life, RenewTime: &now},
	}
	if node != "" {
		l.Annotations[presenceNode] = node
	}
	have, ok := client.Cached[*coordinationv1.Lease](r.cfg.Cache, key)
	if !ok {
		_, err := client.Create(ctx, r.cfg.Client, l, client.WriteOptions{})
		return err
	}
	l.ResourceVersion, l.UID = have.ResourceVersion, have.UID
	_, err := client.Update(ctx, r.cfg.Client, l, client.WriteOptions{})
	return err
}

// Forget removes the lease of a server that is no member any more.
func (r *Roll) Forget(ctx context.Context, name string) error {
	err := client.Delete[*coordinationv1.Lease](ctx, r.cfg.Client, presenceKey(name), client.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
