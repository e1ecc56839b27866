package aggregate

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Config is what an Aggregator needs from outside.
type Config struct {
	Client client.Writer
	Cache  client.Cache
	// Catalog is what is served here.
	Catalog *schema.Live
	// Certificate is the front proxy's client certificate, asked for each
	// connection. nil: none is shown.
	Certificate func() (*tls.Certificate, error)
	// Priority of a group and version that is served here, in discovery.
	Priority func(gv kschema.GroupVersion) (group, version int32)
	// Resolve returns host:port at which a Service answers.
	Resolve func(namespace, name string, port int32) (string, error)
	// InProcess are groups that parts of this process serve.
	InProcess []InProcess
	// CheckEvery is how often other servers are asked whether they are there.
	// Default 30 s.
	CheckEvery time.Duration
	Log        *slog.Logger
}

// Aggregator passes requests on to other API servers.
type Aggregator struct {
	cfg Config
	log *slog.Logger

	mu      sync.RWMutex
	targets map[kschema.GroupVersion]*target
	changed chan struct{}
}

var _ apiserver.Aggregator = (*Aggregator)(nil)

// New returns an Aggregator; it starts nothing.
func New(cfg Config) *Aggregator {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.CheckEvery == 0 {
		cfg.CheckEvery = 30 * time.Second
	}
	return &Aggregator{cfg: cfg, log: cfg.Log, targets: map[kschema.GroupVersion]*target{}, changed: make(chan struct{})}
}

// services is the resource of APIServices.
func services() *schema.Resource { return schema.ResourceFor[*apiregistrationv1.APIService]() }

// Run follows APIServices until ctx is done.
func (a *Aggregator) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	for _, r := range []*schema.Resource{services(), schema.ResourceFor[*corev1.Service](), schema.ResourceFor[*discoveryv1.EndpointSlice]()} {
		if err := a.cfg.Cache.Subscribe(ctx, r, a.relevant(r, wake)); err != nil {
			return err
		}
	}
	tick := time.NewTicker(a.cfg.CheckEvery)
	defer tick.Stop()
	for {
		changed := a.cfg.Catalog.Changed()
		a.manage(ctx)
		a.check(ctx)
		select {
		case <-wake:
		case <-changed:
		case <-tick.C:
			if a.idle() {
				continue
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// idle says that there is no other server to ask.
func (a *Aggregator) idle() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.targets) == 0
}

// relevant wakes the loop for changes that may matter: all APIServices, and the
// Services and slices that one of them names.
func (a *Aggregator) relevant(r *schema.Resource, wake chan<- struct{}) func(client.Event) {
	return func(e client.Event) {
		if r != services() && !a.names(e.Object) {
			return
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

func (a *Aggregator) names(o schema.Object) bool {
	if o == nil {
		return false
	}
	name := o.GetName()
	if s, ok := o.(*discoveryv1.EndpointSlice); ok {
		name = s.Labels[discoveryv1.LabelServiceName]
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, t := range a.targets {
		if s := t.spec.Service; s.Namespace == o.GetNamespace() && s.Name == name {
			return true
		}
	}
	return false
}

// Owns implements apiserver.Aggregator.
func (a *Aggregator) Owns(gv kschema.GroupVersion) bool {
	return a.target(gv) != nil || a.inProcess(gv) != nil
}

func (a *Aggregator) target(gv kschema.GroupVersion) *target {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.targets[gv]
}

// Versions implements apiserver.Aggregator.
func (a *Aggregator) Versions() ([]apiserver.AggregatedVersion, <-chan struct{}) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var all []apiserver.AggregatedVersion
	for gv, t := range a.targets {
		if t.discovery == nil {
			continue // never seen: there is nothing to show
		}
		all = append(all, apiserver.AggregatedVersion{
			Group: gv.Group, GroupPriority: t.spec.GroupPriorityMinimum, VersionPriority: t.spec.VersionPriority,
			Discovery: *t.discovery, OpenAPIHash: t.hash,
		})
	}
	for i := range a.cfg.InProcess {
		if p := &a.cfg.InProcess[i]; a.targets[p.groupVersion()] == nil {
			all = append(all, p.version())
		}
	}
	return all, a.changed
}

// set publishes targets and wakes who waits for them.
func (a *Aggregator) set(targets map[kschema.GroupVersion]*target) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.targets = targets
	close(a.changed)
	a.changed = make(chan struct{})
}

// refusal is the plain answer of upstream for a server that is not there.
func refusal(w http.ResponseWriter, text string, code int) { http.Error(w, text, code) }
