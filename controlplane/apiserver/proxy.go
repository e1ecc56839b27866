package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/proxy"

	"github.com/writ-os/writ/schema"
)

// stream connects pods/<name>/exec, attach and portforward to the pod's node.
func (s *Server) stream(x *exchange) error {
	if x.route.Verb != "get" && x.route.Verb != "create" {
		return errMethod(corev1.Resource("pods"), x.route.Verb)
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
	path, err := streamPath(&x.route, pod, x.r.URL.Query().Get("container"))
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	u, err := s.nodeURL(pod.Spec.NodeName)
	if err != nil {
		return err
	}
	u.Path, u.RawQuery = path, streamQuery(x.r.URL.Query()).Encode()
	s.forward(x, u, s.node.nodes, true)
	return nil
}

func streamPath(rt *route, pod *corev1.Pod, container string) (string, error) {
	switch rt.Subresource {
	case "exec", "attach":
		name, err := containerOf(pod, container)
		if err != nil {
			return "", err
		}
		return "/" + rt.Subresource + "/" + pod.Namespace + "/" + pod.Name + "/" + name, nil
	}
	return "/portForward/" + pod.Namespace + "/" + pod.Name, nil
}

// streamQuery turns the options of exec, attach and portforward into the words
// of the node's server.
func streamQuery(q url.Values) url.Values {
	out := url.Values{}
	for from, to := range map[string]string{"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"} {
		if isTrue(q[from]) {
			out.Set(to, "1")
		}
	}
	for _, c := range q["command"] {
		out.Add("command", c)
	}
	for _, p := range q["ports"] {
		out.Add("port", p)
	}
	return out
}

// forward hands the request over to another server.
func (s *Server) forward(x *exchange, u *url.URL, rt http.RoundTripper, upgradeOnly bool) {
	ctx, cancel := s.untilStopping(x)
	defer cancel()
	r := x.r.WithContext(ctx)
	r.Header = r.Header.Clone()
	r.Header.Del("Authorization") // the client's credentials are for us alone
	x.Header().Del("Cache-Control")
	h := proxy.NewUpgradeAwareHandler(u, rt, false, upgradeOnly, responder{s, x})
	h.MaxBytesPerSec = 0
	h.UseLocationHost = true
	h.ServeHTTP(x, r)
}

type responder struct {
	s *Server
	x *exchange
}

// Error implements proxy.ErrorResponder.
func (p responder) Error(w http.ResponseWriter, r *http.Request, err error) {
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
	var u *url.URL
	var err error
	rt := http.RoundTripper(s.node.pods)
	switch r.Plural {
	case "nodes":
		u, err = s.nodeURL(x.route.Name)
		rt = s.node.nodes
	case "pods":
		u, err = s.podURL(&x.route)
	case "services":
		u, err = s.serviceURL(&x.route)
	default:
		return errMethod(r.GroupResource(), x.route.Verb)
	}
	if err != nil {
		return err
	}
	u.Path = "/" + x.route.Rest
	if strings.HasSuffix(x.r.URL.Path, "/") && !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	u.RawQuery = x.r.URL.RawQuery
	s.forward(x, u, rt, false)
	return nil
}

// splitTarget reads [<scheme>:]<name>[:<port>].
func splitTarget(s string) (scheme, name, port string, ok bool) {
	parts := strings.Split(s, ":")
	switch len(parts) {
	case 1:
		return "http", parts[0], "", parts[0] != ""
	case 2:
		return "http", parts[0], parts[1], parts[0] != ""
	case 3:
		scheme = parts[0]
		if scheme == "" {
			scheme = "http"
		}
		return scheme, parts[1], parts[2], parts[1] != "" && (scheme == "http" || scheme == "https")
	}
	return "", "", "", false
}

func (s *Server) podURL(rt *route) (*url.URL, error) {
	scheme, name, port, ok := splitTarget(rt.Name)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid pod request %q", rt.Name))
	}
	pod, err := s.podOf(&route{Namespace: rt.Namespace, Name: name})
	if err != nil {
		return nil, err
	}
	for _, c := range pod.Spec.Containers {
		if port == "" && len(c.Ports) > 0 {
			port = strconv.Itoa(int(c.Ports[0].ContainerPort))
		}
	}
	return targetURL(scheme, pod.Status.PodIP, port)
}

func (s *Server) serviceURL(rt *route) (*url.URL, error) {
	scheme, name, port, ok := splitTarget(rt.Name)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", rt.Name))
	}
	k := schema.Key{Namespace: rt.Namespace, Name: name}
	svc := s.cfg.Store.Get(schema.ResourceFor[*corev1.Service](), k)
	if svc == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("services"), name)
	}
	portName, ok := servicePort(svc.Object.(*corev1.Service), port)
	if !ok {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %q found for service %q", port, name))
	}
	eps := s.cfg.Store.Get(schema.ResourceFor[*corev1.Endpoints](), k)
	if eps != nil {
		for _, set := range eps.Object.(*corev1.Endpoints).Subsets {
			for _, p := range set.Ports {
				if p.Name == portName && len(set.Addresses) > 0 {
					return targetURL(scheme, set.Addresses[0].IP, strconv.Itoa(int(p.Port)))
				}
			}
		}
	}
	return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
}

// servicePort finds the name of the port that a request names or numbers.
func servicePort(svc *corev1.Service, port string) (string, bool) {
	i := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return port == "" || p.Name == port || strconv.Itoa(int(p.Port)) == port
	})
	if i < 0 || port == "" && len(svc.Spec.Ports) > 1 {
		return port, i >= 0
	}
	return svc.Spec.Ports[i].Name, true
}

// targetURL refuses addresses that would make the server call itself or the
// machine it runs on.
func targetURL(scheme, ip, port string) (*url.URL, error) {
	if addr := net.ParseIP(ip); addr == nil || !addr.IsGlobalUnicast() {
		return nil, apierrors.NewBadRequest("address not allowed")
	}
	host := ip
	if port != "" {
		host = net.JoinHostPort(ip, port)
	}
	return &url.URL{Scheme: scheme, Host: host}, nil
}
