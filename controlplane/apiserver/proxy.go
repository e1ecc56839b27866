package apiserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"

	"github.com/writ-os/writ/controlplane/apiserver/reach"
	"github.com/writ-os/writ/schema"
)

// stream connects pods/<name>/exec, attach and portforward to the pod's node.
func (s *Server) stream(x *exchange, pods *schema.Resource) error {
	if x.route.Verb != "get" && x.route.Verb != "create" {
		return errMethod(pods, x.route.Verb)
	}
	options, err := streamOptions(x.route.Subresource, x.r.URL.Query())
	if err != nil {
		return err
	}
	if err := s.admitConnect(x, pods, options); err != nil {
		return err
	}
	if x.route.Verb == "get" {
		// A WebSocket opens with GET. Running a command is not reading, and
		// whoever may only read must not get there by another protocol.
		a := x.attributes()
		a.Verb = "create"
		if err := s.allowed(x, a); err != nil {
			return err
		}
	}
	pod, err := s.podOf(&x.route)
	if err != nil {
		return err
	}
	path, query, err := streamTarget(pod, options)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	u, err := s.podNode(pod)
	if err != nil {
		return err
	}
	u.Path, u.RawQuery = path, query.Encode()
	s.forward(x, u, s.cfg.Way.Nodes, false, true)
	return nil
}

// admitConnect asks admission, where the Registry can.
func (s *Server) admitConnect(x *exchange, r *schema.Resource, options runtime.Object) error {
	c, ok := s.cfg.Registry.(Connector)
	if !ok {
		return nil
	}
	k := key(r, &x.route)
	return c.AdmitConnect(x.r.Context(), r, k, x.route.Subresource, options)
}

// forward hands the request over to another server.
//
// rewrite makes links and redirects in answers lead through the proxy.
func (s *Server) forward(x *exchange, u *url.URL, rt http.RoundTripper, rewrite, upgradeOnly bool) {
	ctx, cancel := s.untilStopping(x)
	defer cancel()
	r := x.r.WithContext(ctx)
	r.Header = r.Header.Clone()
	r.Header.Del("Authorization") // the client's credentials are for us alone
	x.Header().Del("Cache-Control")
	h := proxy.NewUpgradeAwareHandler(u, rt, rewrite, upgradeOnly, responder{s, x})
	h.ServeHTTP(x, r)
}

type responder struct {
	s *Server
	x *exchange
}

// Error implements proxy.ErrorResponder.
func (p responder) Error(w http.ResponseWriter, r *http.Request, err error) {
	if refused := (*reach.RefusedError)(nil); errors.As(err, &refused) {
		err = apierrors.NewBadRequest("address not allowed")
	}
	p.s.writeError(w, r, err)
}

// untilStopping bounds a stream by the life of the server.
func (s *Server) untilStopping(x *exchange) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(x.r.Context())
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// proxy serves nodes/<name>/proxy, pods/<name>/proxy and services/<name>/proxy.
func (s *Server) proxy(x *exchange, r *schema.Resource) error {
	path := proxyPath(x)
	var options runtime.Object
	switch r.Plural {
	case "nodes":
		options = &corev1.NodeProxyOptions{Path: path}
	case "pods":
		options = &corev1.PodProxyOptions{Path: path}
	case "services":
		options = &corev1.ServiceProxyOptions{Path: path}
	default:
		return errMethod(r, x.route.Verb)
	}
	if err := s.admitConnect(x, r, options); err != nil {
		return err
	}
	u, rt, err := s.proxyTarget(r, &x.route)
	if err != nil {
		return err
	}
	u.Path, u.RawQuery = path, x.r.URL.RawQuery
	sandboxed(x.Header())
	s.forward(x, u, rt, true, false)
	return nil
}

// proxyPath is the path that the other server is asked for: "" where the
// client's ends with "proxy", which is then redirected to "proxy/".
func proxyPath(x *exchange) string {
	if x.route.Rest == "" {
		if strings.HasSuffix(x.r.URL.Path, "/") {
			return "/"
		}
		return ""
	}
	p := "/" + x.route.Rest
	if strings.HasSuffix(x.r.URL.Path, "/") {
		p += "/"
	}
	return p
}

func (s *Server) proxyTarget(r *schema.Resource, rt *route) (u *url.URL, by http.RoundTripper, err error) {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(rt.Name)
	if !ok {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("invalid %s request %q", r.Singular, rt.Name))
	}
	if scheme == "" {
		scheme = "http"
	}
	by = s.cfg.Way.Pods
	switch r.Plural {
	case "nodes":
		if u, err = s.nodeURL(name); err != nil {
			return nil, nil, err
		}
		if port == "" || port == u.Port() {
			return u, s.cfg.Way.Nodes, nil
		}
		n, err := s.nodeOf(name)
		if err != nil {
			return nil, nil, err
		}
		u, err = targetURL(scheme, NodeHosts(n)[0], port)
		return u, by, err
	case "pods":
		u, err = s.podURL(schema.Key{Namespace: rt.Namespace, Name: name}, scheme, port)
	default:
		u, err = s.serviceURL(schema.Key{Namespace: rt.Namespace, Name: name}, scheme, port, rt.Name)
	}
	return u, by, err
}

func (s *Server) podURL(k schema.Key, scheme, port string) (*url.URL, error) {
	pod, err := s.podOf(&route{Namespace: k.Namespace, Name: k.Name})
	if err != nil {
		return nil, err
	}
	for _, c := range pod.Spec.Containers {
		if port == "" && len(c.Ports) > 0 {
			port = strconv.Itoa(int(c.Ports[0].ContainerPort))
		}
	}
	ip := pod.Status.PodIP
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return targetURL(scheme, ip, port)
}

// serviceURL picks an endpoint of a service: id is what the client has named.
func (s *Server) serviceURL(k schema.Key, scheme, port, id string) (*url.URL, error) {
	if n, err := strconv.ParseInt(port, 10, 64); err == nil {
		svc := s.cfg.Store.Get(schema.ResourceFor[*corev1.Service](), k)
		if svc == nil {
			return nil, apierrors.NewNotFound(corev1.Resource("services"), k.Name)
		}
		ports := svc.Object.(*corev1.Service).Spec.Ports
		i := slices.IndexFunc(ports, func(p corev1.ServicePort) bool { return int64(p.Port) == n })
		if i < 0 {
			return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", n, k.Name))
		}
		port = ports[i].Name
	}
	eps := s.cfg.Store.Get(schema.ResourceFor[*corev1.Endpoints](), k)
	if eps == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("services"), k.Name)
	}
	var found []string
	for _, set := range eps.Object.(*corev1.Endpoints).Subsets {
		for _, p := range set.Ports {
			if p.Name != port {
				continue
			}
			for _, a := range set.Addresses {
				if s.isPod(k.Namespace, &a) {
					found = append(found, net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
				}
			}
		}
	}
	switch {
	case len(eps.Object.(*corev1.Endpoints).Subsets) == 0:
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", k.Name))
	case len(found) == 0:
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", id))
	}
	return &url.URL{Scheme: scheme, Host: found[rand.IntN(len(found))]}, nil
}

// isPod says whether an address is that of the pod it names. Whoever may write
// Endpoints must not be able to make the server call anything else.
func (s *Server) isPod(namespace string, a *corev1.EndpointAddress) bool {
	if a.TargetRef == nil || a.TargetRef.Namespace != namespace {
		return false
	}
	pod, err := s.podOf(&route{Namespace: namespace, Name: a.TargetRef.Name})
	return err == nil && slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == a.IP })
}

// targetURL refuses addresses that would make the server call itself or the
// machine it runs on.
func targetURL(scheme, ip, port string) (*url.URL, error) {
	if addr := net.ParseIP(ip); addr == nil || !addr.IsGlobalUnicast() {
		return nil, apierrors.NewBadRequest("address not allowed")
	}
	host := ip
	if strings.Contains(ip, ":") {
		host = "[" + ip + "]"
	}
	if port != "" {
		host = net.JoinHostPort(ip, port)
	}
	return &url.URL{Scheme: scheme, Host: host}, nil
}
