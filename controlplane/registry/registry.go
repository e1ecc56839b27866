package registry

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// Config is what a Registry needs from outside. Zero values mean the default.
type Config struct {
	Store *store.Store
	// Catalog is what the cluster serves. nil: the table alone.
	Catalog *schema.Live
	// Admission runs in this order: all Mutate, then all Validate.
	Admission []Admission
	Log       *slog.Logger
	// ServiceCIDR is the range of ClusterIPs. Default 10.96.0.0/16.
	ServiceCIDR netip.Prefix
	// NodePorts are the first and the last port of Services. Default 30000-32767.
	NodePorts [2]int
}

// Attributes describe one write to admission.
type Attributes struct {
	User user.Info
	Verb string // create update delete connect
	// Resource is that of Object and Old: the one that is stored.
	Resource *schema.Resource
	// Request is the resource that was asked for: another version of the same
	// kind, or Resource itself.
	Request     *schema.Resource
	Subresource string
	Key         schema.Key
	// Object is the new state, which Mutate may change; nil for delete. Of a
	// create at a subresource it is what was posted (a Binding).
	Object schema.Object
	// Old is the stored state, which nobody may change; nil for create.
	Old          schema.Object
	FieldManager string
	DryRun       bool
	// Options are what came with the request: *metav1.CreateOptions,
	// *metav1.UpdateOptions, *metav1.PatchOptions, *metav1.DeleteOptions, or of
	// a connect the *corev1.PodExecOptions and its like. nil: none.
	Options runtime.Object
	// Cluster is the cluster as this write sees it: the server's copy with the
	// effects of the ops before it in the same transaction. Admission that
	// looks up other objects (a namespace, a service account, an inventory)
	// must look here, or a commit that creates a namespace and fills it is
	// refused. Subscribe is not possible on it.
	Cluster client.Cache
}

// Admission looks at writes before they are stored. Errors are
// apierrors.StatusError.
type Admission interface {
	// Mutate may change a.Object.
	Mutate(ctx context.Context, a *Attributes) error
	// Validate refuses or does nothing.
	Validate(ctx context.Context, a *Attributes) error
}

// Handler is what an Admission may implement besides, to be asked for some
// writes only.
type Handler interface {
	Handles(verb string, r *schema.Resource, sub string) bool
}

// Registry is the rules of every kind over a store.
type Registry struct {
	cfg    Config
	store  *store.Store
	log    *slog.Logger
	rules  map[*schema.Resource]*rule
	fields *fieldManagers
	alloc  *allocator
	queues queues

	mu        sync.RWMutex
	admission []Admission
}

var _ client.Backend = (*Registry)(nil)

// New returns a registry; it starts nothing.
func New(cfg Config) *Registry {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if !cfg.ServiceCIDR.IsValid() {
		cfg.ServiceCIDR = netip.MustParsePrefix("10.96.0.0/16")
	}
	if cfg.NodePorts == [2]int{} {
		cfg.NodePorts = [2]int{30000, 32767}
	}
	g := &Registry{
		cfg: cfg, store: cfg.Store, log: cfg.Log, admission: cfg.Admission,
		fields: newFieldManagers(cfg.Log, cfg.Catalog),
		alloc:  newAllocator(cfg.ServiceCIDR, cfg.NodePorts),
	}
	g.rules = g.allRules()
	return g
}

// SetAdmission replaces the chain of Config. Admission reads the cluster
// through the registry, so that neither can be made before the other: call it
// while wiring, before the first write.
func (g *Registry) SetAdmission(chain ...Admission) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admission = chain
}

// rule returns the rules of a resource, never nil.
func (g *Registry) rule(r *schema.Resource) *rule {
	if r.Custom != nil {
		return customRule
	}
	if u := g.rules[r.Stored()]; u != nil {
		return u
	}
	return plainRule
}
