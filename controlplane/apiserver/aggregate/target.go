package aggregate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"reflect"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/streaming/pkg/httpstream"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"
)

// target is another server as an APIService describes it. It never changes but
// is replaced.
type target struct {
	spec      apiregistrationv1.APIServiceSpec
	transport *http.Transport
	available bool
	discovery *apidiscoveryv2.APIVersionDiscovery // as last seen; nil: never
	hash      string                              // of its OpenAPI document
}

// defaultPort is the port of a service reference that names none.
const defaultPort = 443

func port(s *apiregistrationv1.ServiceReference) int32 {
	if s.Port != nil {
		return *s.Port
	}
	return defaultPort
}

// same says whether connections made for one spec serve another.
func same(a, b *apiregistrationv1.APIServiceSpec) bool {
	return reflect.DeepEqual(a.Service, b.Service) && a.InsecureSkipTLSVerify == b.InsecureSkipTLSVerify && reflect.DeepEqual(a.CABundle, b.CABundle)
}

// errCABundle is why a server cannot be spoken to.
var errCABundle = errors.New("the caBundle holds no PEM certificate")

// transportFor makes the connections to another server: it is verified by the
// APIService's CA under the Service's name, and we show the front proxy's
// certificate.
func (a *Aggregator) transportFor(spec *apiregistrationv1.APIServiceSpec) (*http.Transport, error) {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         spec.Service.Name + "." + spec.Service.Namespace + ".svc",
		NextProtos:         []string{"h2", "http/1.1"},
		InsecureSkipVerify: spec.InsecureSkipTLSVerify, //nolint:gosec // the user asked for it in the APIService
	}
	if len(spec.CABundle) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(spec.CABundle) {
			return nil, errCABundle
		}
	}
	if a.cfg.Certificate != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return a.cfg.Certificate() }
	}
	return &http.Transport{
		TLSClientConfig: c, ForceAttemptHTTP2: true, DisableCompression: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 25,
		MaxResponseHeaderBytes: 64 << 10,
	}, nil
}

// Serve implements apiserver.Aggregator.
func (a *Aggregator) Serve(w http.ResponseWriter, r *http.Request, gv kschema.GroupVersion) {
	t := a.target(gv)
	if p := a.inProcess(gv); t == nil && p != nil {
		p.Handler.ServeHTTP(w, r)
		return
	}
	if t == nil || !t.available || t.transport == nil {
		refusal(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	u, ok := request.UserFrom(r.Context())
	if !ok {
		refusal(w, "missing user", http.StatusInternalServerError)
		return
	}
	host, err := a.cfg.Resolve(t.spec.Service.Namespace, t.spec.Service.Name, port(t.spec.Service))
	if err != nil {
		a.log.Debug("aggregated server has no endpoint", "group", gv.Group, "version", gv.Version, "err", err)
		refusal(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	location := *r.URL
	location.Scheme, location.Host = "https", host
	out := forwarded(r, u)
	out.URL, out.Host = &location, host
	h := proxy.NewUpgradeAwareHandler(&location, t.transport, true, httpstream.IsUpgradeRequest(r), responder{w})
	h.UseLocationHost = true
	h.ServeHTTP(w, out)
}

// forwarded is the request as the other server gets it: without the client's
// credentials, with the name of the user.
func forwarded(r *http.Request, u user.Info) *http.Request {
	out := r.Clone(r.Context())
	out.Header.Del("Authorization")
	transport.SetAuthProxyHeaders(out, u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra())
	return out
}

type responder struct{ w http.ResponseWriter }

// Error implements proxy.ErrorResponder.
func (p responder) Error(_ http.ResponseWriter, _ *http.Request, err error) {
	refusal(p.w, err.Error(), http.StatusServiceUnavailable)
}

// fetch gets a document from another server as system:masters, who always may.
func (a *Aggregator) fetch(ctx context.Context, t *target, path, accept string) (*http.Response, error) {
	host, err := a.cfg.Resolve(t.spec.Service.Namespace, t.spec.Service.Name, port(t.spec.Service))
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+path, nil)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	transport.SetAuthProxyHeaders(r, "system:kube-aggregator", "", []string{user.SystemPrivilegedGroup}, nil)
	return t.transport.RoundTrip(r)
}
