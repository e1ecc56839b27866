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
	// PodCIDR is the range of pod addresses. Default 10.244.0.0/16.
	PodCIDR netip.Prefix
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
}

// Certificates is the cluster's authority, as the controllers of
// CertificateSigningRequests need it.
type Certificates struct {
	Sign    func(csr *certificatesv1.CertificateSigningRequest) (cert []byte, mine bool, refusal string, err error)
	Node    func(csr *certificatesv1.CertificateSigningRequest) (commonName string, ok bool)
	Allowed func(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, subresource string) (bool, error)
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
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &set{cfg: cfg}
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
	s.runners = append(s.runners, controller.New(cfg))
}

// recorder returns a recorder of events for a component, by upstream's name.
func (s *set) recorder(component string) *client.Recorder {
	r := client.NewRecorder(s.cfg.Client, component, "")
	r.Log = s.cfg.Log.With("component", component)
	s.recorders = append(s.recorders, r)
	return r
}

func (s *set) workloads() {
	c := s.cfg
	s.add("deployment", 5, deployment.New(deployment.Config{Client: c.Client, Cache: c.Cache, Recorder: s.recorder("deployment-controller"), Now: c.Now}))
	s.add("replicaset", 5, replicaset.New(replicaset.Config{Client: c.Client, Cache: c.Cache, Recorder: s.recorder("replicaset-controller"), Now: c.Now}))
	s.add("replicationcontroller", 5, replicaset.NewReplicationController(replicaset.Config{Client: c.Client, Cache: c.Cache, Recorder: s.recorder("replication-controller"), Now: c.Now}))
	s.add("statefulset", 5, statefulset.New(statefulset.Config{Client: c.Client, Cache: c.Cache, Recorder: s.recorder("statefulset-controller"), Now: c.Now}))
	s.add("daemonset", 2, daemonset.New(daemonset.Config{Client: c.Client, Cache: c.Cache, Recorder: s.recorder("daemonset-controller"), Now: c.Now}))
	s.add("job", 5, job.New(job.Config{Client: c.Client, Cache: c.Cache, Recorder: s.recorder("job-controller"), Now: c.Now}))
	s.add("cronjob", 5, cronjob.New(cronjob.Config{Client: c.Client, Cache: c.Cache, Recorder: s.recorder("cronjob-controller"), Now: c.Now}))
	s.add("ttlafterfinished", 2, ttlafterfinished.New(ttlafterfinished.Config{Client: c.Client, Cache: c.Cache, Now: c.Now}))
	s.add("poddisruption", 2, poddisruption.New(poddisruption.Config{Client: c.Client, Cache: c.Cache, Recorder: s.recorder("controllermanager"), Now: c.Now}))
}

func (s *set) network() {
	c := s.cfg
	s.add("endpointslice", 5, endpointslice.New(endpointslice.Config{Client: c.Client, Cache: c.Cache}))
	s.add("endpointslicemirroring", 5, endpointslicemirroring.New(endpointslicemirroring.Config{
		Client: c.Client, Cache: c.Cache, Recorder: s.recorder("endpoint-slice-mirroring-controller"),
	}))
	s.add("endpoints", 5, endpoints.New(endpoints.Config{Client: c.Client, Cache: c.Cache}))
	s.add("servicecidr", 5, servicecidr.New(servicecidr.Config{Client: c.Client, Cache: c.Cache, Recorder: s.recorder("service-cidr-controller"), Now: c.Now}))
	s.add("ipaddress", 5, ipaddress.New(ipaddress.Config{Client: c.Client, Cache: c.Cache, Recorder: s.recorder("ipallocator-repair-controller"), Now: c.Now}))
}

func (s *set) nodes() {
	c := s.cfg
	s.add("nodelifecycle", 4, nodelifecycle.New(nodelifecycle.Config{Client: c.Client, Cache: c.Cache, Recorder: s.recorder("node-controller"), Now: c.Now, Grace: c.NodeGrace}))
	s.add("tainteviction", 4, tainteviction.New(tainteviction.Config{Client: c.Client, Cache: c.Cache, Recorder: s.recorder("taint-eviction-controller"), Now: c.Now}))
	s.add("nodeipam", 1, nodeipam.New(nodeipam.Config{Client: c.Client, Cache: c.Cache, Recorder: s.recorder("cidrAllocator"), PodCIDR: c.PodCIDR}))
	s.add("podgc", 1, podgc.New(podgc.Config{Client: c.Client, Cache: c.Cache, Now: c.Now}))
}

func (s *set) housekeeping() {
	c := s.cfg
	s.add("namespace", 4, namespace.New(namespace.Config{Client: c.Client, Cache: c.Cache, Catalog: c.Catalog, Now: c.Now}))
	s.add("serviceaccount", 1, serviceaccount.New(serviceaccount.Config{Client: c.Client, Cache: c.Cache}))
	s.add("rootca", 1, rootca.New(rootca.Config{Client: c.Client, Cache: c.Cache, CA: c.CA}))
	s.add("resourcequota", 5, resourcequota.New(resourcequota.Config{Client: c.Client, Cache: c.Cache, Catalog: c.Catalog, Now: c.Now}))
	s.add("garbagecollector", 16, garbagecollector.New(garbagecollector.Config{Client: c.Client, Cache: c.Cache, Catalog: c.Catalog}))
}

func (s *set) volumes() {
	c := s.cfg
	s.add("persistentvolumeclaim-protection", 5, pvcprotection.New(pvcprotection.Config{Client: c.Client, Cache: c.Cache}))
	s.add("persistentvolume-protection", 1, pvprotection.New(pvprotection.Config{Client: c.Client, Cache: c.Cache}))
}

func (s *set) certificates() {
	c := s.cfg
	s.add("csrcleaner", 1, certificates.NewCleaner(certificates.CleanerConfig{Client: c.Client, Cache: c.Cache, Now: c.Now}))
	if c.Certificates.Sign == nil {
		return
	}
	s.add("csrsigning", 2, certificates.NewSigner(certificates.SignerConfig{Client: c.Client, Cache: c.Cache, Sign: c.Certificates.Sign, Now: c.Now}))
	s.add("csrapproving", 2, certificates.NewApprover(certificates.ApproverConfig{
		Client: c.Client, Cache: c.Cache, Node: c.Certificates.Node, Allowed: c.Certificates.Allowed, Now: c.Now,
	}))
}

func (s *set) tokens() {
	c := s.cfg
	if c.Tokens.Legacy != nil {
		s.add("serviceaccounttoken", 5, serviceaccounttoken.New(serviceaccounttoken.Config{Client: c.Client, Cache: c.Cache, CA: c.CA, Token: c.Tokens.Legacy}))
		s.add("legacytokencleaner", 1, legacytokencleaner.New(legacytokencleaner.Config{Client: c.Client, Cache: c.Cache, Now: c.Now}))
	}
	if c.Server != "" {
		s.add("clusterinfo", 1, clusterinfo.New(clusterinfo.Config{Client: c.Client, Cache: c.Cache, Server: c.Server, CA: c.CA}))
	}
	if c.Tokens.Signed != nil {
		s.add("bootstrapsigner", 1, bootstrapsigner.New(bootstrapsigner.Config{Client: c.Client, Cache: c.Cache, Signed: c.Tokens.Signed, Now: c.Now}))
	}
	if c.Tokens.Expired != nil {
		s.add("tokencleaner", 1, tokencleaner.New(tokencleaner.Config{Client: c.Client, Cache: c.Cache, Expired: c.Tokens.Expired, Now: c.Now}))
	}
}
