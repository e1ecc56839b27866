package containerd

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/writ-os/writ/nodeagent/image"
)

// mirrorDial bounds how long a mirror that is away holds up each request.
const mirrorDial = 3 * time.Second

// clients ask registries and mirrors, one for each host, so that connections
// are kept. One whose endpoint was declared anew is replaced; what it has begun,
// it ends.
type clients struct {
	mu  sync.Mutex
	all map[clientKey]hostClient
}

type clientKey struct {
	host   string
	mirror bool
}

type hostClient struct {
	endpoint *image.Endpoint
	*http.Client
}

func (c *clients) of(host string, e *image.Endpoint, mirror bool) *http.Client {
	if !e.TLS() {
		e, host = nil, "" // they are all alike
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := clientKey{host, mirror}
	have, ok := c.all[key]
	if ok && have.endpoint == e {
		return have.Client
	}
	if ok {
		have.CloseIdleConnections()
	}
	if c.all == nil {
		c.all = map[clientKey]hostClient{}
	}
	next := hostClient{e, newClient(e, mirror)}
	c.all[key] = next
	return next.Client
}

func newClient(e *image.Endpoint, mirror bool) *http.Client {
	var conf *tls.Config
	if e != nil {
		conf = &tls.Config{RootCAs: e.Authorities, MinVersion: tls.VersionTLS12}
		if e.Certificate != nil {
			conf.Certificates = []tls.Certificate{*e.Certificate}
		}
	}
	t := docker.DefaultHTTPTransport(conf)
	if mirror {
		t.DialContext = (&net.Dialer{Timeout: mirrorDial, KeepAlive: 30 * time.Second}).DialContext
	}
	return &http.Client{Transport: t}
}

func (c *clients) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.all {
		h.CloseIdleConnections()
	}
}
