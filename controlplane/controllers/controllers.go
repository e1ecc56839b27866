// Package controllers runs all controllers of the control plane.
//
// Each controller is a package of its own below this one; they know nothing of
// each other and meet in the store. This package only lists them.
package controllers

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controllers/bootstrapsigner"
	"github.com/writ-os/writ/controlplane/controllers/certificates"
	"github.com/writ-os/writ/controlplane/controllers/clusterinfo"
	"github.com/writ-os/writ/controlplane/controllers/cronjob"
	"github.com/writ-os/writ/controlplane/controllers/daemonset"
	"github.com/writ-os/writ/controlplane/controllers/deployment"
	"github.com/writ-os/writ/controlplane/controllers/endpoints"
	"github.com/writ-os/writ/controlplane/controllers/endpointslice"
	"github.com/writ-os/writ/controlplane/controllers/endpointslicemirroring"
	"github.com/writ-os/writ/controlplane/controllers/garbagecollector"
	"github.com/writ-os/writ/controlplane/controllers/ipaddress"
	"github.com/writ-os/writ/controlplane/controllers/job"
	"github.com/writ-os/writ/controlplane/controllers/legacytokencleaner"
	"github.com/writ-os/writ/controlplane/controllers/namespace"
	"github.com/writ-os/writ/controlplane/controllers/nodeipam"
	"github.com/writ-os/writ/controlplane/controllers/nodelifecycle"
	"github.com/writ-os/writ/controlplane/controllers/nodepool"
	"github.com/writ-os/writ/controlplane/controllers/poddisruption"
	"github.com/writ-os/writ/controlplane/controllers/podgc"
	"github.com/writ-os/writ/controlplane/controllers/pvcprotection"
	"github.com/writ-os/writ/controlplane/controllers/pvprotection"
	"github.com/writ-os/writ/controlplane/controllers/replicaset"
	"github.com/writ-os/writ/controlplane/controllers/resourcequota"
	"github.com/writ-os/writ/controlplane/controllers/rootca"
	"github.com/writ-os/writ/controlplane/controllers/serviceaccount"
	"github.com/writ-os/writ/controlplane/controllers/serviceaccounttoken"
	"github.com/writ-os/writ/controlplane/controllers/servicecidr"
	"github.com/writ-os/writ/controlplane/controllers/statefulset"
	"github.com/writ-os/writ/controlplane/controllers/tainteviction"
	"github.com/writ-os/writ/controlplane/controllers/tokencleaner"
	"github.com/writ-os/writ/controlplane/controllers/ttlafterfinished"
	"github.com/writ-os/writ/schema"
)

// Config is everything the controllers need from outside.
type Config struct {
	// Client writes as the controllers' user. One that is a client.Transactor
	// makes the creation of many pods one transaction.
	Client client.Interface
	// Cache holds every resource of the table.
	Cache client.Cache
	// Catalog is what the cluster serves. nil: the table alone.
	Catalog *schema.Live
	// CA is the cluster's certificate authority in PEM.
	CA []byte
	// Server is the URL at which machines that join find the API server; "" leaves
	// it to others to publish one.
	Server string
	// Servers are the URLs of all servers that are there, and ServersAgain how often
	// they are looked at; nil and 0 while this server is alone.
	Servers      func() []string
	ServersAgain time.Duration
	// ServerInside is the URL by which pods find it.
	ServerInside string
	// PodCIDR is the range of pod addresses. Default nodeipam.DefaultPodCIDR.
	PodCIDR netip.Prefix
	// NodeCIDRMaskSize is the prefix length of one node's range. Default 24.
	NodeCIDRMaskSize int
	// NodeGrace is how long a node may be silent. Default 40 s.
	NodeGrace time.Duration
	// Certificates signs and approves requests; without Sign nobody does.
	Certificates Certificates
	// Tokens signs for accounts and joining machines; a function that is nil
	// leaves its controller out.
	Tokens Tokens
	// PolicyStatus tells what is wrong with admission policies. May be nil.
	PolicyStatus Reconciler
	Log          *slog.Logger
	// Metrics may be nil.
	Metrics *controller.Metrics
	// Now is the clock. Default time.Now.
	Now func() time.Time

	// wrap returns what runs instead of a reconciler. For tests.
	wrap func(name string, r controller.Reconciler) controller.Reconciler
}

// Certificates is the cluster's authority, as the controllers of
// CertificateSigningRequests need it.
type Certificates struct {
	Sign    func(csr *certificatesv1.CertificateSigningRequest) (cert []byte, mine bool, refusal string, err error)
	Node    func(csr *certificatesv1.CertificateSigningRequest) (commonName string, ok bool)
	Allowed func(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, subresource string) (bool, error)
	Serving func(csr *certificatesv1.CertificateSigningRequest) (node string, hosts []string, ok bool)
	// Barred says why no node may serve as a host, Reserved why none may have a
	// name; "" they may.
	Barred, Reserved func(string) string
	// Server says whether a name is that of a server's machine.
	Server func(node string) bool
}

// Tokens is what the controllers of tokens need of those who check them.
type Tokens struct {
	// Legacy returns the token of an account that lies in the Secret of a name.
	Legacy func(account *corev1.ServiceAccount, secret string) (string, error)
	// Signed returns cluster-info as the bootstrap tokens sign it now.
	Signed func(info *corev1.ConfigMap, tokens []*corev1.Secret, now time.Time) (next *corev1.ConfigMap, changed bool, err error)
	// Expired says whether a bootstrap token is over.
	Expired func(token *corev1.Secret, now time.Time) bool
}

// Reconciler is what every controller package offers.
type Reconciler interface {
	controller.Reconciler
	Watches() []controller.Watch
}

// set collects the controllers and the recorders that they write events with.
type set struct {
	cfg       Config
	tools     controller.Tools
	runners   []*controller.Controller
	recorders []*client.Recorder
}

// Run runs all controllers until ctx is done or one of them fails.
func Run(ctx context.Context, cfg Config) error {
	s := all(cfg)
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range s.recorders {
		g.Go(func() error { return r.Run(ctx) })
	}
	for _, c := range s.runners {
		g.Go(func() error { return c.Run(ctx) })
	}
	return g.Wait()
}

func all(cfg Config) *set {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &set{cfg: cfg, tools: controller.Tools{Client: controller.Noting(cfg.Client), Cache: cfg.Cache, Clock: cfg.Now}}
	s.workloads()
	s.network()
	s.nodes()
	s.housekeeping()
	s.volumes()
	s.certificates()
	s.tokens()
	if cfg.PolicyStatus != nil {
		s.add("validatingadmissionpolicystatus", 5, cfg.PolicyStatus)
	}
	return s
}

// add puts a controller with its number of workers on the list.
func (s *set) add(name string, workers int, r Reconciler) {
	cfg := controller.Config{
		Name: name, Reconciler: r, Watches: r.Watches(), Cache: s.cfg.Cache, Workers: workers, Log: s.cfg.Log, Metrics: s.cfg.Metrics,
	}
	if all, ok := r.(interface {
		Custom(stored *schema.Resource) controller.Watch
	}); ok {
		cfg.Custom, cfg.Catalog = all.Custom, s.cfg.Catalog
	}
	if s.cfg.wrap != nil {
		cfg.Reconciler = s.cfg.wrap(name, r)
	}
	s.runners = append(s.runners, controller.New(cfg))
}

// recording are tools with which a component tells of events, by upstream's name.
func (s *set) recording(component string) controller.Tools {
	t := s.tools
	if len(s.recorders) == 0 {
		t.Recorder = client.NewRecorder(t.Client, component, "")
	} else {
		t.Recorder = s.recorders[0].Of(component, "")
	}
	t.Recorder.Log = s.cfg.Log.With("component", component)
	s.recorders = append(s.recorders, t.Recorder)
	return t
}

func (s *set) workloads() {
	s.add("deployment", 5, deployment.New(s.recording("deployment-controller")))
	s.add("replicaset", 5, replicaset.New(s.recording("replicaset-controller")))
	s.add("replicationcontroller", 5, replicaset.NewReplicationController(s.recording("replication-controller")))
	s.add("statefulset", 5, statefulset.New(s.recording("statefulset-controller")))
	s.add("daemonset", 2, daemonset.New(s.recording("daemonset-controller")))
	s.add("job", 5, job.New(s.recording("job-controller")))
	s.add("cronjob", 5, cronjob.New(s.recording("cronjob-controller")))
	s.add("ttlafterfinished", 2, ttlafterfinished.New(s.tools))
	s.add("poddisruption", 2, poddisruption.New(poddisruption.Config{Tools: s.recording("controllermanager"), Catalog: s.cfg.Catalog}))
}

func (s *set) network() {
	s.add("endpointslice", 5, endpointslice.New(s.tools))
	s.add("endpointslicemirroring", 5, endpointslicemirroring.New(s.recording("endpoint-slice-mirroring-controller")))
	s.add("endpoints", 5, endpoints.New(s.tools))
	s.add("servicecidr", 5, servicecidr.New(s.recording("service-cidr-controller")))
	s.add("ipaddress", 5, ipaddress.New(s.recording("ipallocator-repair-controller")))
}

func (s *set) nodes() {
	c := s.cfg
	s.add("nodelifecycle", 4, nodelifecycle.New(nodelifecycle.Config{Tools: s.recording("node-controller"), Grace: c.NodeGrace}))
	s.add("tainteviction", 4, tainteviction.New(s.recording("taint-eviction-controller")))
	s.add("nodeipam", 1, nodeipam.New(nodeipam.Config{Tools: s.recording("cidrAllocator"), PodCIDR: c.PodCIDR, NodeBits: c.NodeCIDRMaskSize}))
	s.add("nodepool", 1, nodepool.New(s.recording("nodepool-controller")))
	s.add("podgc", 1, podgc.New(podgc.Config{Tools: s.tools}))
}

func (s *set) housekeeping() {
	c := s.cfg
	s.add("namespace", 4, namespace.New(namespace.Config{Tools: s.tools, Catalog: c.Catalog}))
	s.add("serviceaccount", 1, serviceaccount.New(s.tools))
	s.add("rootca", 1, rootca.New(rootca.Config{Tools: s.tools, CA: c.CA}))
	s.add("resourcequota", 5, resourcequota.New(resourcequota.Config{Tools: s.tools, Catalog: c.Catalog}))
	s.add("garbagecollector", 16, garbagecollector.New(garbagecollector.Config{Tools: s.tools, Catalog: c.Catalog}))
}

func (s *set) volumes() {
	s.add("persistentvolumeclaim-protection", 5, pvcprotection.New(s.tools))
	s.add("persistentvolume-protection", 1, pvprotection.New(s.tools))
}

func (s *set) certificates() {
	c := s.cfg
	s.add("csrcleaner", 1, certificates.NewCleaner(s.tools))
	if c.Certificates.Sign == nil {
		return
	}
	s.add("csrsigning", 2, certificates.NewSigner(certificates.SignerConfig{Tools: s.tools, Sign: c.Certificates.Sign}))
	s.add("csrservingapproving", 2, certificates.NewServingApprover(certificates.ServingConfig{Tools: s.tools, Node: c.Certificates.Serving, Barred: c.Certificates.Barred}))
	s.add("csrapproving", 2, certificates.NewApprover(certificates.ApproverConfig{Tools: s.tools, Node: c.Certificates.Node, Allowed: c.Certificates.Allowed, Reserved: c.Certificates.Reserved, Server: c.Certificates.Server}))
}

func (s *set) tokens() {
	c := s.cfg
	if c.Tokens.Legacy != nil {
		s.add("serviceaccounttoken", 5, serviceaccounttoken.New(serviceaccounttoken.Config{Tools: s.tools, CA: c.CA, Token: c.Tokens.Legacy}))
		s.add("legacytokencleaner", 1, legacytokencleaner.New(legacytokencleaner.Config{Tools: s.tools}))
	}
	if c.Server != "" {
		s.add("clusterinfo", 1, clusterinfo.New(clusterinfo.Config{Tools: s.tools, Server: c.Server, Inside: c.ServerInside, CA: c.CA,
			Servers: c.Servers, Again: c.ServersAgain}))
	}
	if c.Tokens.Signed != nil {
		s.add("bootstrapsigner", 1, bootstrapsigner.New(bootstrapsigner.Config{Tools: s.tools, Signed: c.Tokens.Signed}))
	}
	if c.Tokens.Expired != nil {
		s.add("tokencleaner", 1, tokencleaner.New(tokencleaner.Config{Tools: s.tools, Expired: c.Tokens.Expired}))
	}
}
