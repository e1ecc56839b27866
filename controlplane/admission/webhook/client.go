package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// maxAnswer bounds an answer, in bytes: a JSON patch that replaces the
	// largest object that is stored fits in several times.
	maxAnswer = 8 << 20
	// maxClients bounds how many connection pools are kept.
	maxClients = 200
	idleTime   = 90 * time.Second
)

// clients keeps one HTTP client per place that webhooks are at.
type clients struct {
	resolve func(ctx context.Context, namespace, name string, port int32) (string, error)

	mu   sync.Mutex
	made map[string]*http.Client
}

func newClients(resolve func(context.Context, string, string, int32) (string, error)) *clients {
	return &clients{resolve: resolve, made: map[string]*http.Client{}}
}

// client returns the client for a place, and the URL to ask there.
func (c *clients) client(cc *admissionv1.WebhookClientConfig) (*http.Client, *url.URL, error) {
	u, err := address(cc)
	if err != nil {
		return nil, nil, err
	}
	key, err := json.Marshal(cc)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.made[string(key)]; have != nil {
		return have, u, nil
	}
	t, err := c.transport(cc, u)
	if err != nil {
		return nil, nil, err
	}
	if len(c.made) >= maxClients {
		for k, old := range c.made { // any one: it is made again when needed
			old.CloseIdleConnections()
			delete(c.made, k)
			break
		}
	}
	made := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.made[string(key)] = made
	return made, u, nil
}

// close ends all idle connections.
func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, cl := range c.made {
		cl.CloseIdleConnections()
		delete(c.made, k)
	}
}

// address is where a webhook is, as its certificate must say.
func address(cc *admissionv1.WebhookClientConfig) (*url.URL, error) {
	if s := cc.Service; s != nil {
		u := &url.URL{Scheme: "https", Host: net.JoinHostPort(s.Name+"."+s.Namespace+".svc", strconv.Itoa(int(port(s)))), Path: "/"}
		if s.Path != nil {
			u.Path += strings.TrimPrefix(*s.Path, "/")
		}
		return u, nil
	}
	if cc.URL == nil || *cc.URL == "" {
		return nil, errors.New("webhook configuration must have either service or URL")
	}
	u, err := url.Parse(*cc.URL)
	if err != nil {
		return nil, fmt.Errorf("Unparsable URL: %w", err) //nolint:staticcheck // upstream's text
	}
	return u, nil
}

func port(s *admissionv1.ServiceReference) int32 {
	if s.Port == nil || *s.Port == 0 {
		return 443
	}
	return *s.Port
}

func (c *clients) transport(cc *admissionv1.WebhookClientConfig, u *url.URL) (*http.Transport, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	if len(cc.CABundle) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(cc.CABundle) {
			return nil, errors.New("unable to load root certificates: no certificate in caBundle")
		}
	}
	t := &http.Transport{
		TLSClientConfig: conf, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: idleTime,
		MaxIdleConnsPerHost: 25, MaxResponseHeaderBytes: 64 << 10,
		// HTTP/2 keeps to one connection, and with it to one of several back ends.
		ForceAttemptHTTP2: false, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	t.DialContext = dialer.DialContext
	s := cc.Service
	if s == nil {
		t.Proxy = http.ProxyFromEnvironment
		return t, nil
	}
	if c.resolve != nil {
		namespace, name, p := s.Namespace, s.Name, port(s)
		t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			host, err := c.resolve(ctx, namespace, name, p)
			if err != nil {
				return nil, err
			}
			return dialer.DialContext(ctx, network, host)
		}
	}
	return t, nil
}

// post sends a review and returns the answer to it. ctx has the deadline.
func (c *clients) post(ctx context.Context, cc *admissionv1.WebhookClientConfig, body []byte) ([]byte, error) {
	cl, u, err := c.client(cc)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		q := u.Query()
		q.Set("timeout", roundUp(time.Until(deadline)).String())
		u.RawQuery = q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, */*")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "kube-apiserver-admission")
	resp, err := cl.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("answer is larger than %d bytes", maxAnswer)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		text := strings.TrimSpace(string(answer[:min(len(answer), 2048)]))
		after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return nil, apierrors.NewGenericServerResponse(resp.StatusCode, "post", kschema.GroupResource{}, "", text, after, true)
	}
	return answer, nil
}

// roundUp tells the webhook its time in whole seconds.
func roundUp(d time.Duration) time.Duration {
	if t := d.Truncate(time.Second); t != d {
		return t + time.Second
	}
	return d
}
