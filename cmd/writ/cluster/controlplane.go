package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/cmd/writ/member"
	"github.com/writ-os/writ/controlplane/admission"
	admissionpolicy "github.com/writ-os/writ/controlplane/admission/policy"
	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/controlplane/apiserver/aggregate"
	"github.com/writ-os/writ/controlplane/apiserver/audit"
	"github.com/writ-os/writ/controlplane/apiserver/fairness"
	"github.com/writ-os/writ/controlplane/apiserver/reach"
	"github.com/writ-os/writ/controlplane/auth"
	"github.com/writ-os/writ/controlplane/auth/bootstrap"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/auth/rbac"
	"github.com/writ-os/writ/controlplane/auth/token"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controllers"
	"github.com/writ-os/writ/controlplane/controllers/apiendpoint"
	"github.com/writ-os/writ/controlplane/crd"
	"github.com/writ-os/writ/controlplane/encryption"
	"github.com/writ-os/writ/controlplane/members"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/controlplane/reload"
	"github.com/writ-os/writ/controlplane/scheduler"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/nodeagent/metricsapi"
	"github.com/writ-os/writ/reconciler/page"
	"github.com/writ-os/writ/reconciler/receive"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema"
)

// ControlPlane is a server: store, API, controllers, scheduler, reconciler.
type ControlPlane struct {
	cfg   Config
	ready chan struct{}

	metrics   *prometheus.Registry
	catalog   schema.Live
	store     *store.Store
	registry  *registry.Registry
	authority *pki.Authority
	// frontProxy is the CA by which this server calls other API servers.
	frontProxy *pki.Authority
	keeper     *pki.Keeper
	way        *reach.Way
	authz      *auth.Authorizer
	tokens     *token.Authority
	admission  *admission.Admission
	api        *apiserver.Server
	page       *page.Page

	audit       *audit.Trail
	limiter     *fairness.Limiter
	definitions *crd.Publisher
	aggregator  *aggregate.Aggregator
	top         *metricsapi.API
	encryption  *encryption.Encryption

	// followed are the loops that take over files of the operator's.
	followed            []func(context.Context) error
	reloads             *reload.Metrics
	clientCAs, proxyCAs *auth.CABundle

	// member and peers are of one of several servers; nil alone.
	member              *member.State
	peers               *pki.Authority
	roll                *members.Roll   // of the others; nil alone
	toServers, asServer *http.Transport // to others of its kind: for users, and for itself
	// git is what follows the repositories, while this server leads.
	git     atomic.Pointer[repository]
	remote  *receive.Remote  // built in; nil with a repository elsewhere
	replica *members.Replica // of remote; nil alone
	sandbox *sandbox.Sandbox // of what others wrote
	acting  chan struct{}    // closed when it has begun to lead for the first time
	acted   sync.Once
	keys    *ownKeys
	again   chan struct{} // closed when the process is to start again
	anew    sync.Once
}

// NewControlPlane returns a control plane; it starts nothing.
func NewControlPlane(cfg Config) *ControlPlane {
	return &ControlPlane{cfg: cfg, ready: make(chan struct{}), acting: make(chan struct{}), again: make(chan struct{})}
}

func (p *ControlPlane) startAgain() { p.anew.Do(func() { close(p.again) }) }

// Ready is closed when the API is served and the loops run.
func (p *ControlPlane) Ready() <-chan struct{} { return p.ready }

// Run serves until ctx ends or a part fails.
func (p *ControlPlane) Run(ctx context.Context) error {
	release, err := lock(p.cfg.DataDir, ServerLock)
	if err != nil {
		return err
	}
	defer release()
	if err := p.cfg.checkFormat(); err != nil {
		return err
	}
	if err := p.adopt(); err != nil {
		return err
	}
	if err := p.orderedReset(ctx); err != nil {
		return err
	}
	if err := p.openMembers(ctx); err != nil {
		return err
	}
	if err := p.noteBeginning(); err != nil {
		return err
	}
	if err := p.chooseEncryption(time.Now()); err != nil {
		return err
	}
	listeners, err := p.listeners(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	}()
	p.cfg.step("store", "opening "+p.cfg.file("store"))
	if err := p.openStore(ctx); err != nil {
		return err
	}
	l := newLayers(ctx)
	l.store.Go(func() error { return p.store.Run(l.store.ctx) })
	l.front.Go(func() error {
		select {
		case <-p.again:
			return ErrAgain
		case <-l.front.ctx.Done():
			return nil
		}
	})
	if err := p.wire(l.loops.ctx, listeners); err != nil {
		return l.stop(err)
	}
	select {
	case <-p.store.Ready():
	case <-l.front.ctx.Done():
		return l.wait()
	}
	if err := p.serve(l); err != nil {
		return l.stop(err)
	}
	close(p.ready)
	return l.wait()
}

// stop ends a group that has begun, for an error outside of it.
func stop(g *errgroup.Group, err error) error {
	g.Go(func() error { return err })
	_ = g.Wait() //nolint:errcheck // it is err, or what came before
	return err
}

func (p *ControlPlane) openStore(ctx context.Context) (err error) {
	p.metrics = prometheus.NewRegistry()
	m := store.NewMetrics()
	p.reloads = reload.NewMetrics(p.cfg.NodeName)
	p.metrics.MustRegister(m, p.reloads)
	cfg := store.Config{Dir: p.cfg.file("store"), Log: p.log("store"), Resources: schema.Builtin.Stored(), Metrics: m,
		EventTTL: cmp.Or(p.cfg.API.EventTTL, EventTTL), QuotaBytes: p.cfg.API.QuotaBackendBytes}
	if cfg.Members, err = p.storeMembers(); err != nil {
		return err
	}
	if f := p.cfg.API.EncryptionFile; f != "" {
		// The store writes until it has ended: what it encrypts with must live longer.
		ctx = context.WithoutCancel(ctx)
		if p.encryption, err = encryption.Open(ctx, encryption.Config{File: f, ServerID: p.cfg.NodeName, Metrics: p.reloads, Log: p.log("encryption"),
			Changed: func() { p.store.Reread() }}); err != nil {
			return err
		}
		if err := p.encryption.Check(ctx); err != nil {
			return fmt.Errorf("%s: what is stored cannot be read without its keys: %w", f, err)
		}
		cfg.Sealer = encryption.Sealer{Transformer: p.encryption}
	}
	p.store = store.New(cfg)
	p.registry = registry.New(registry.Config{Store: p.store, Catalog: &p.catalog, Log: p.log("registry"), ServiceCIDR: ServiceCIDR})
	return nil
}

// wire makes every part. None of them runs yet.
func (p *ControlPlane) wire(ctx context.Context, listeners []net.Listener) (err error) {
	if p.authority, err = pki.Open(pki.Config{Dir: p.cfg.file("pki")}); err != nil {
		return err
	}
	if p.frontProxy, err = pki.OpenFrontProxy(pki.Config{Dir: p.cfg.file("pki")}); err != nil {
		return err
	}
	p.keeper = &pki.Keeper{Authority: p.authority, Log: p.log("pki"), Files: p.cfg.credentials()}
	p.tokens, err = token.New(token.Config{
		Key: p.authority.ServiceAccountKey(), Cache: p.registry.Cache(), Labels: p.as(identity.APIServer), Log: p.log("auth")})
	if err != nil {
		return err
	}
	if err := p.gates(ctx); err != nil {
		return err
	}
	authn, err := p.authenticator(ctx)
	if err != nil {
		return err
	}
	toNodes, err := nodeTLS(p.authority)
	if err != nil {
		return err
	}
	p.way = reach.New(reach.Config{TLS: toNodes, Hosts: p.nodeHosts, Barred: p.barred})
	p.top = p.newTop()
	if p.member != nil {
		p.roll = members.NewRoll(p.asMember())
	}
	p.toServers, p.asServer = p.newToServers(p.frontProxyCertificate), p.newToServers(p.ownCertificate)
	p.sandbox = sandbox.New(sandbox.Config{Log: p.log("sandbox")})
	p.metrics.MustRegister(p.sandbox)
	if p.cfg.BuiltIn() {
		p.openRemote()
	}
	p.definitions, p.aggregator = p.newDefinitions(), p.newAggregator()
	if _, err := p.cfg.Repository.auth(); err != nil {
		return err // now, and not when this server comes to lead
	}
	p.limiter = fairness.New(fairness.Config{Seats: p.cfg.API.MaxInFlight, Log: p.log("fairness")})
	p.metrics.MustRegister(p.limiter)
	serving := p.authority.NewServingCertificate(pki.Serving{Name: "kube-apiserver", Hosts: pki.APIServerHosts(Domain, APIService.String(), p.hosts()...)})
	certificate, err := p.certificate(ctx, serving.Get)
	if err != nil {
		return err
	}
	p.api = apiserver.New(apiserver.Config{
		Store: p.store, Registry: p.registry,
		Catalog: &p.catalog, Limit: p.limiter, Audit: p.audit, Aggregate: p.aggregator,
		Authenticator: authn, Authorizer: p.authz, Tokens: p.tokens, TokenReader: auth.Reviewer{Authenticator: authn}, Rules: p.authz,
		Listeners: listeners, TLS: auth.TLSConfig(certificate, p.clientCAs, p.frontProxy, p.proxyCAs), Socket: p.cfg.file("writ.sock"),
		CBOR: p.cfg.API.FeatureGates[CBORGate], Profiling: !p.cfg.API.NoProfiling,
		Way: p.way, Mounts: slices.Concat(p.gitMounts(), p.pages(), p.servers(), p.replicas()), Metrics: p.metrics, Log: p.log("apiserver"),
		Checks: p.checks(),
		Documents: []apiserver.Document{
			{Path: token.JWKSPath, ContentType: "application/jwk-set+json", Read: p.tokens.JWKS},
			{Path: token.OpenIDConfigurationPath, ContentType: "application/json", Read: func() ([]byte, error) {
				return p.tokens.OpenIDConfiguration(p.inside() + token.JWKSPath) // pods read it too
			}},
		},
	})
	return nil
}

// gates are those that every request and every write pass.
func (p *ControlPlane) gates(ctx context.Context) error {
	chain, err := p.cfg.API.Authorization.Open(p.log("auth"))
	if err != nil {
		return err
	}
	p.authz = auth.NewAuthorizer(auth.AuthorizerConfig{Cache: p.registry.Cache(), Chain: chain, Explain: func(a authorizer.Attributes) string {
		return p.admission.Guard.Explain(a)
	}})
	if err := p.followAuthorization(ctx, chain); err != nil {
		return err
	}
	a := p.cfg.API
	p.admission = admission.New(admission.Config{
		Cache: p.registry.Cache(), Catalog: &p.catalog, Roles: p.authz.RBAC, Authorizer: p.authz, ResolveService: p.resolve,
		Enable: a.EnableAdmission, Disable: a.DisableAdmission, PodSecurity: a.podSecurity(), Metrics: p.metrics, Log: p.log("admission"),
	})
	p.registry.SetAdmission(append([]registry.Admission{crd.Admission{}}, p.admission.Plugins()...)...)
	if a.Audit.LogPath != audit.Off {
		p.audit, err = audit.New(a.Audit.In(p.cfg.file("audit.log")))
	}
	return err
}

// serve brings what the cluster stands on into the store, and then starts
// everything that reads it.
func (p *ControlPlane) serve(l *layers) error {
	p.cfg.step("API server", p.cfg.server())
	// What is waited for here ends with the front.
	starting, ctx, g := l.front.ctx, l.loops.ctx, l.loops
	g.Go(func() error { return p.authz.Run(ctx) })
	g.Go(func() error { return p.admission.Run(ctx) })
	g.Go(func() error { return p.audit.Run(ctx) })
	g.Go(func() error { return p.definitions.Run(ctx) })
	if err := p.layWhenReadable(starting, g.Group); err != nil {
		return err
	}
	select {
	case <-p.definitions.Ready():
	case <-starting.Done():
		return nil
	}
	if err := p.keeper.WriteAll(); err != nil {
		return err
	}
	p.follow(ctx, g.Group)
	g.Go(func() error { return p.keeper.Run(ctx) })
	l.front.Go(func() error { return p.api.Run(l.front.ctx) })
	g.Go(func() error { return p.aggregator.Run(ctx) })
	g.Go(func() error {
		return fairness.Run(ctx, p.limiter, fairness.Config{Client: p.as(identity.APIServer), Cache: p.registry.Cache(), Log: p.log("fairness")})
	})
	if p.encryption != nil {
		g.Go(func() error { return p.encryption.Run(ctx) })
	}
	if p.cfg.API.InsecurePort != 0 {
		l.front.Go(func() error { return p.serveInsecure(l.front.ctx) })
	}
	if p.cfg.Still {
		return nil
	}
	g.Go(func() error { return p.top.Run(ctx) })
	g.Go(func() error { return p.page.Run(ctx) })
	g.Go(func() error { return p.keepRole(ctx) })
	if p.remote != nil {
		if err := p.remote.Open(); err != nil {
			return err
		}
	}
	g.Go(func() error { return p.store.WhileLeading(ctx, p.act) })
	if p.member != nil {
		g.Go(func() error { return p.roll.Run(ctx) })
		g.Go(func() error { return p.keepPeer(ctx) })
		if p.replica != nil {
			g.Go(func() error { return p.replica.Run(ctx) })
		}
		return nil
	}
	if p.store.Unreadable() != nil {
		return nil // it serves, and says what it lacks
	}
	select {
	case <-p.acting:
	case <-starting.Done():
	}
	return nil
}

// loops starts controllers and scheduler.
func (p *ControlPlane) loops(ctx context.Context, g *errgroup.Group, metrics prometheus.Registerer) {
	cm := p.as(user.KubeControllerManager)
	g.Go(func() error {
		return controllers.Run(ctx, controllers.Config{Client: cm, Cache: p.registry.Cache(), Catalog: &p.catalog, CA: p.authority.CAPEM(), PodCIDR: p.cfg.podCIDR(), NodeCIDRMaskSize: p.cfg.NodeCIDRMaskSize,
			Server: p.toldTo(p.cfg.hostAddress()), ServerInside: p.inside(), Servers: p.serverURLs, ServersAgain: p.endpointsAgain(),
			Certificates: p.certificates(), Tokens: controllers.Tokens{Legacy: p.tokens.Legacy, Signed: bootstrap.Signed, Expired: bootstrap.Expired},
			PolicyStatus: admissionpolicy.NewStatus(admissionpolicy.StatusConfig{
				Cache: p.registry.Cache(), Client: cm, Catalog: &p.catalog, Schemas: admissionpolicy.OpenAPI(p.api.OpenAPIV3), Log: p.log("admission")}),
			Log: p.log("controllers"), Metrics: controller.NewMetrics(metrics)})
	})
	roles := &rbac.Aggregator{Client: p.as(identity.APIServer), Cache: p.registry.Cache(), Log: p.log("rbac")}
	g.Go(func() error { return roles.Run(ctx) })
	endpoint := apiendpoint.New(apiendpoint.Config{Client: p.as(identity.APIServer), Cache: p.registry.Cache(), ServiceIP: APIService, Servers: p.endpoints, Again: p.endpointsAgain()})
	runner := controller.New(controller.Config{Name: "apiendpoint", Reconciler: endpoint, Watches: endpoint.Watches(), Cache: p.registry.Cache(), Workers: 1, Log: p.log("controllers")})
	runner.Enqueue(schema.Key{Namespace: "default", Name: "kubernetes"})
	g.Go(func() error { return runner.Run(ctx) })

	ks := p.as(user.KubeScheduler)
	events := client.NewRecorder(ks, "default-scheduler", "")
	g.Go(func() error { return events.Run(ctx) })
	sched := scheduler.New(scheduler.Config{Client: ks, Cache: p.registry.Cache(), Recorder: events, Log: p.log("scheduler")})
	metrics.MustRegister(sched.Collectors()...)
	g.Go(func() error { return sched.Run(ctx) })
}

// as is the client of a part of this process.
func (p *ControlPlane) as(name string) *client.LocalClient {
	return client.Local(p.registry, identity.System(name), fieldManager(name))
}

// fieldManager is the name under which a part's writes are recorded: without
// "system:", as upstream's parts are called.
func fieldManager(name string) string {
	for _, prefix := range []string{"system:writ:", "system:"} {
		if len(name) > len(prefix) && name[:len(prefix)] == prefix {
			return name[len(prefix):]
		}
	}
	return name
}

// listeners opens the ports before anything else: a port that is taken should
// be said at once.
func (p *ControlPlane) listeners(ctx context.Context) ([]net.Listener, error) {
	l, err := listen(p.cfg.Listen)
	if err != nil {
		return nil, err
	}
	all := []net.Listener{l}
	if a := p.advertised(); !covers(l.Addr(), a.Addr()) {
		pods, err := freebind(ctx, a.String())
		if err != nil {
			_ = l.Close()
			return nil, err
		}
		all = append(all, pods)
	}
	return all, nil
}

// covers says that a listener answers on an address.
func covers(a net.Addr, ip netip.Addr) bool {
	have, err := netip.ParseAddrPort(a.String())
	return err == nil && (have.Addr().IsUnspecified() || have.Addr() == ip)
}

// inside is the URL by which pods reach the API server.
func (p *ControlPlane) inside() string { return "https://" + p.advertised().String() }

// toldTo is the URL that machines are told that join: that which others reach,
// if they reach any.
func (p *ControlPlane) toldTo(machine netip.Addr) string {
	if at := reachable(p.cfg.Listen, machine); at != "" {
		return "https://" + at
	}
	return p.inside()
}

// firstGateway is the first address of the first node's pod range.
func (c Config) firstGateway() netip.Addr { return c.podCIDR().Addr().Next() }

// hosts are the names besides the usual ones in the serving certificate.
func (p *ControlPlane) hosts() []string {
	hosts := []string{p.cfg.NodeName, p.cfg.firstGateway().String()}
	if host, _, err := net.SplitHostPort(p.cfg.Listen); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	if ip := p.cfg.hostAddress(); ip.IsValid() {
		hosts = append(hosts, ip.String())
	}
	if u, err := url.Parse(p.cfg.ExternalURL); err == nil && u.Hostname() != "" {
		hosts = append(hosts, u.Hostname())
	}
	return hosts
}
