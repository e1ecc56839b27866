package apiserver

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/apiserver/audit"
	"github.com/writ-os/writ/controlplane/apiserver/fairness"
	"github.com/writ-os/writ/controlplane/apiserver/reach"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// Registry takes all writes, and reads that are not bytes of the store.
type Registry interface {
	client.Writer
	GetSubresource(ctx context.Context, r *schema.Resource, key schema.Key, sub string) (schema.Object, error)
	PatchOrCreate(ctx context.Context, r *schema.Resource, key schema.Key, t types.PatchType, data []byte, w client.WriteOptions) (o schema.Object, created bool, err error)
	DeleteObject(ctx context.Context, r *schema.Resource, key schema.Key, d client.DeleteOptions) (o schema.Object, gone bool, err error)
	DeleteAll(ctx context.Context, r *schema.Resource, items []*store.Item, d client.DeleteOptions) error
}

// Connector admits connections to an object, which write nothing: exec, attach,
// portforward and proxy. A Registry may be one.
type Connector interface {
	AdmitConnect(ctx context.Context, r *schema.Resource, key schema.Key, sub string, options runtime.Object) error
}

// Limiter decides when a request runs. The seat carries what the answer's
// headers say; it is released when the request has been answered.
type Limiter interface {
	Acquire(ctx context.Context, a authorizer.Attributes) (fairness.Seat, error)
}

// Aggregator answers for the groups and versions that APIServices hand to
// other servers. Requests have been authenticated and authorized before; the
// user is in the request's context.
type Aggregator interface {
	// Owns says whether another server has the group and version.
	Owns(gv kschema.GroupVersion) bool
	// Serve passes a request on; it is called for paths of a group and version
	// that is owned: /apis/<group>/<version> and below, and its document at
	// /openapi/v3/apis/<group>/<version>.
	Serve(w http.ResponseWriter, r *http.Request, gv kschema.GroupVersion)
	// Versions are what discovery shows of the other servers. Changed is closed
	// when they are about to differ.
	Versions() (all []AggregatedVersion, changed <-chan struct{})
}

// AggregatedVersion is one group and version of another server.
type AggregatedVersion struct {
	Group                          string
	GroupPriority, VersionPriority int32
	Discovery                      apidiscoveryv2.APIVersionDiscovery
	// OpenAPIHash is the hash of its OpenAPI v3 document; "" it has none.
	OpenAPIHash string
}

// Authenticator says who makes a request. ok is false where the request
// carries no credentials; err says that those it carries are bad.
type Authenticator interface {
	Authenticate(*http.Request) (u user.Info, ok bool, err error)
}

// TokenIssuer answers serviceaccounts/<name>/token. Errors are those of the API.
type TokenIssuer interface {
	Request(ctx context.Context, key schema.Key, in *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// TokenReader says whose a bearer token is, and for which of the wanted
// audiences it is good.
type TokenReader interface {
	Authenticate(token string, wanted []string) (u user.Info, audiences []string, err error)
}

// Rules lists what a user may do in a namespace, for `kubectl auth can-i --list`.
type Rules interface {
	RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error)
}

// Check is one line of /readyz, and of /livez where Live is set.
type Check struct {
	Name  string
	Live  bool
	Check func(context.Context) error
}

// Mount serves all paths below a prefix by another handler. The handler finds
// the user in the request's context (k8s.io/apiserver/pkg/endpoints/request)
// when the request was authenticated, and decides by itself who may pass.
type Mount struct {
	Prefix  string // "/git/"
	Handler http.Handler
	// Audited has the requests of known users, and those with credentials that
	// are no good, in the audit log, without bodies.
	Audited bool
}

// Document is a public JSON document: the OpenID discovery of token issuers.
type Document struct {
	Path        string
	ContentType string
	Read        func() ([]byte, error)
}

// Config is everything the server needs from outside.
type Config struct {
	Store         *store.Store
	Registry      Registry
	Authenticator Authenticator
	Authorizer    authorizer.Authorizer
	// Catalog is what is served. nil: the table alone.
	Catalog *schema.Live
	// Audit records requests; nil records none.
	Audit *audit.Trail
	// Limit decides which requests run now. Default: fairness.New with InFlight
	// seats and the configuration that Kubernetes begins with.
	Limit Limiter
	// Aggregate serves what other servers have; nil: there are none.
	Aggregate Aggregator
	// Tokens, TokenReader and Rules may be nil: their resources answer 404.
	Tokens      TokenIssuer
	TokenReader TokenReader
	Rules       Rules

	// Listeners serve HTTPS with TLS, which must ask for client certificates
	// where the Authenticator reads them (tls.RequestClientCert).
	Listeners []net.Listener
	TLS       *tls.Config
	// Socket is the path of a unix socket, mode 0600, on which everybody is
	// system:masters. "" opens none.
	Socket string

	// Way leads to node agents and pods. nil: no node is found.
	Way *reach.Way

	// CBOR lets clients speak it (KEP-4222; upstream's gate
	// CBORServingAndStorage, off by default). What is stored stays protobuf.
	CBOR bool

	// Profiling serves /debug/pprof.
	Profiling bool

	Mounts    []Mount
	Documents []Document
	// Checks of /readyz beside the store's own.
	Checks []Check

	// Metrics are registered here and served at /metrics. Default: a new one.
	Metrics *prometheus.Registry
	// Version is what /version says. Default "v1.36.4+writ".
	Version string
	// InFlight is how many requests run at once, watches and streams not
	// counted, where Limit does not say. Default 600.
	InFlight int
	// RequestTimeout bounds everything but watches and streams. Default 60 s.
	RequestTimeout time.Duration
	// HeaderWithin, BodyWithin and WriteWithin bound how long a client may take
	// to send the headers of a request, to send its body, and to take a chunk of
	// an answer. Default 10 s, 30 s, 30 s.
	HeaderWithin, BodyWithin, WriteWithin time.Duration
	// BookmarkEvery is how often a watch that allows bookmarks gets one.
	// Default 1 m.
	BookmarkEvery time.Duration
	// ContinueFor is how long the pages of a list stay consistent. Default 5 m.
	ContinueFor time.Duration
	// Grace is how long requests may finish when Run ends. Default 5 s.
	Grace time.Duration

	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.RequestTimeout, time.Minute)
	set(&c.HeaderWithin, 10*time.Second)
	set(&c.BodyWithin, 30*time.Second)
	set(&c.WriteWithin, 30*time.Second)
	set(&c.BookmarkEvery, time.Minute)
	set(&c.ContinueFor, 5*time.Minute)
	set(&c.Grace, 5*time.Second)
	if c.InFlight == 0 {
		c.InFlight = 600
	}
	if c.Limit == nil {
		c.Limit = fairness.New(fairness.Config{Seats: c.InFlight, Log: c.Log})
	}
	if c.Version == "" {
		c.Version = "v1.36.4+writ"
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	if c.Way == nil {
		c.Way = reach.New(reach.Config{})
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
