package probe

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Target is the container to ask.
type Target struct {
	PodIP     string
	Container *corev1.Container
	// Exec runs a command in it.
	Exec func(ctx context.Context, command []string, out io.Writer) (int, error)
}

// Net is the Prober for real containers.
type Net struct{ client *http.Client }

var _ Prober = (*Net)(nil)

// UserAgent is what probes call themselves.
const UserAgent = "kube-probe/1.36"

// maxBody is how much of an answer is read.
const maxBody = 10 << 10

// New returns a Prober. Every probe has its own connection, so that it sees
// what a new client would see.
func New() *Net { return &Net{client: Client()} }

// Client returns what sends the requests of httpGet actions, for probes and
// hooks. It keeps no connections.
func Client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // certificates are not checked, as upstream
			DisableKeepAlives:  true,
			DisableCompression: true,
			Proxy:              nil,
		},
		CheckRedirect: sameHost,
	}
}

// sameHost follows redirects within the host; one elsewhere counts as an
// answer.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// Probe asks once, within the deadline of ctx.
func (n *Net) Probe(ctx context.Context, p *corev1.Probe, t Target) (Result, string) {
	switch {
	case p.Exec != nil:
		return execProbe(ctx, p.Exec.Command, t)
	case p.HTTPGet != nil:
		return n.httpProbe(ctx, p.HTTPGet, t)
	case p.TCPSocket != nil:
		return tcpProbe(ctx, p.TCPSocket, t)
	case p.GRPC != nil:
		return grpcProbe(ctx, p.GRPC, t)
	}
	return Failure, "missing probe handler"
}

func execProbe(ctx context.Context, command []string, t Target) (Result, string) {
	var out bytes.Buffer
	code, err := t.Exec(ctx, command, &limited{w: &out, n: maxBody})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Failure, fmt.Sprintf("command timed out: %q", strings.Join(command, " "))
	case err != nil:
		return Unknown, err.Error()
	case code != 0:
		return Failure, out.String()
	}
	return Success, out.String()
}

func (n *Net) httpProbe(ctx context.Context, a *corev1.HTTPGetAction, t Target) (Result, string) {
	req, err := Request(ctx, a, t)
	if err != nil {
		return Unknown, err.Error()
	}
	res, err := n.client.Do(req)
	if err != nil {
		return Failure, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return Failure, err.Error()
	}
	if res.StatusCode >= 200 && res.StatusCode < 400 {
		return Success, string(b)
	}
	return Failure, fmt.Sprintf("HTTP probe failed with statuscode: %d", res.StatusCode)
}

// Request builds the request of an httpGet action, for probes and hooks.
func Request(ctx context.Context, a *corev1.HTTPGetAction, t Target) (*http.Request, error) {
	port, err := Port(a.Port, t.Container)
	if err != nil {
		return nil, err
	}
	host := a.Host
	if host == "" {
		host = t.PodIP
	}
	u, err := url.Parse(a.Path)
	if err != nil {
		u = &url.URL{Path: a.Path}
	}
	u.Scheme = strings.ToLower(string(a.Scheme))
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	u.Host = net.JoinHostPort(host, strconv.Itoa(port))
	if !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, h := range a.HTTPHeaders {
		req.Header.Add(h.Name, h.Value)
	}
	for name, value := range map[string]string{"User-Agent": UserAgent, "Accept": "*/*"} {
		if _, ok := req.Header[name]; !ok {
			req.Header.Set(name, value)
		} else if name == "Accept" && req.Header.Get(name) == "" {
			req.Header.Del(name) // asked for by an empty one
		}
	}
	if h := req.Header.Get("Host"); h != "" {
		req.Host = h
	}
	return req, nil
}

// Port finds the number of a port that may be given by name.
func Port(p intstr.IntOrString, c *corev1.Container) (int, error) {
	if p.Type == intstr.Int {
		return p.IntValue(), nil
	}
	for i := range c.Ports {
		if c.Ports[i].Name == p.StrVal {
			return int(c.Ports[i].ContainerPort), nil
		}
	}
	if n, err := strconv.Atoi(p.StrVal); err == nil {
		return n, nil
	}
	return 0, fmt.Errorf("couldn't find port: %v in %s", p.StrVal, c.Name)
}

func tcpProbe(ctx context.Context, a *corev1.TCPSocketAction, t Target) (Result, string) {
	port, err := Port(a.Port, t.Container)
	if err != nil {
		return Unknown, err.Error()
	}
	host := a.Host
	if host == "" {
		host = t.PodIP
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return Failure, err.Error()
	}
	_ = c.Close()
	return Success, ""
}

func grpcProbe(ctx context.Context, a *corev1.GRPCAction, t Target) (Result, string) {
	addr := net.JoinHostPort(t.PodIP, strconv.Itoa(int(a.Port)))
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent(UserAgent))
	if err != nil {
		return Failure, fmt.Sprintf("error: health rpc probe failed: %v", err)
	}
	defer conn.Close()
	service := ""
	if a.Service != nil {
		service = *a.Service
	}
	start := time.Now()
	res, err := healthpb.NewHealthClient(conn).Check(metadata.NewOutgoingContext(ctx, metadata.MD{}), &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		switch status.Code(err) {
		case codes.Unimplemented:
			return Failure, fmt.Sprintf("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", status.Convert(err).Message())
		case codes.DeadlineExceeded, codes.Unavailable:
			return Failure, fmt.Sprintf("timeout: failed to connect service %q within %v: %v", addr, time.Since(start).Round(time.Millisecond), status.Convert(err).Message())
		}
		return Failure, fmt.Sprintf("error: health rpc probe failed: %v", err)
	}
	if res.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return Failure, fmt.Sprintf("service unhealthy (responded with %q)", res.GetStatus())
	}
	return Success, "service healthy"
}

// limited drops what goes beyond n bytes.
type limited struct {
	w io.Writer
	n int
}

func (l *limited) Write(b []byte) (int, error) {
	keep := b[:min(len(b), l.n)]
	l.n -= len(keep)
	if len(keep) > 0 {
		if _, err := l.w.Write(keep); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
