package crd

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
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

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/schema/custom"
)

// webhookTimeout bounds a call, as upstream does.
const webhookTimeout = 30 * time.Second

// Webhooks calls the conversion webhooks of definitions. A nil one calls none.
type Webhooks struct {
	// Resolve finds the address ("10.96.0.7:443") of a port of a Service.
	Resolve func(ctx context.Context, namespace, name string, port int32) (string, error)
	// Dial opens connections. Default: net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Post returns what calls the webhook of a definition, nil if it has none. The
// connections of one that is used no more are closed after a while.
func (w *Webhooks) Post(def *apiextensionsv1.CustomResourceDefinition) custom.Post {
	c := def.Spec.Conversion
	if w == nil || c == nil || c.Strategy != apiextensionsv1.WebhookConverter || c.Webhook == nil || c.Webhook.ClientConfig == nil {
		return nil
	}
	config := c.Webhook.ClientConfig
	type target struct {
		client *http.Client
		url    string
	}
	made := sync.OnceValues(func() (target, error) {
		to, err := webhookURL(config)
		if err != nil {
			return target{}, err
		}
		h, err := w.httpClient(config)
		return target{h, to}, err
	})
	return func(ctx context.Context, review []byte) ([]byte, error) {
		t, err := made()
		if err != nil {
			return nil, err
		}
		return post(ctx, t.client, t.url, review)
	}
}

// webhookURL is the URL to post to. That of a service names it, for its
// certificate; where it is, is asked when a connection is made.
func webhookURL(c *apiextensionsv1.WebhookClientConfig) (string, error) {
	if c.URL != nil {
		u, err := url.Parse(*c.URL)
		if err != nil {
			return "", fmt.Errorf("unparsable webhook URL: %w", err)
		}
		q := u.Query()
		q.Set("timeout", webhookTimeout.String())
		u.RawQuery = q.Encode()
		return u.String(), nil
	}
	if c.Service == nil {
		return "", errors.New("webhook configuration must have either service or URL")
	}
	u := url.URL{Scheme: "https", Host: net.JoinHostPort(serviceHost(c.Service), strconv.Itoa(int(servicePort(c.Service)))), RawQuery: "timeout=" + webhookTimeout.String()}
	if c.Service.Path != nil {
		u.Path = "/" + strings.TrimPrefix(*c.Service.Path, "/")
	}
	return u.String(), nil
}

func serviceHost(s *apiextensionsv1.ServiceReference) string {
	return s.Name + "." + s.Namespace + ".svc"
}

func servicePort(s *apiextensionsv1.ServiceReference) int32 {
	if s.Port == nil {
		return 443
	}
	return *s.Port
}

// httpClient trusts the authorities that the definition names, or else those of
// the system.
func (w *Webhooks) httpClient(c *apiextensionsv1.WebhookClientConfig) (*http.Client, error) {
	t := &http.Transport{
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     30 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}
	if bundle := bytes.TrimSpace(c.CABundle); len(bundle) > 0 {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(bundle) {
			return nil, errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	dial := w.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: webhookTimeout}).DialContext
	}
	t.DialContext = dial
	if s := c.Service; s != nil && c.URL == nil {
		t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			if w.Resolve == nil {
				return nil, errors.New("services cannot be resolved here")
			}
			address, err := w.Resolve(ctx, s.Namespace, s.Name, servicePort(s))
			if err != nil {
				return nil, err
			}
			return dial(ctx, network, address)
		}
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// post sends a review. The answer may be some times as long as the question,
// and no longer.
func post(ctx context.Context, h *http.Client, to string, review []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(review))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := h.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	limit := int64(3<<20 + 8*len(review))
	answer, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if int64(len(answer)) > limit {
		return nil, fmt.Errorf("the answer is longer than %d bytes", limit)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, apierrors.NewGenericServerResponse(resp.StatusCode, http.MethodPost, kschema.GroupResource{}, "", string(answer), 0, true)
	}
	return answer, nil
}
