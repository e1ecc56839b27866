package server

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"strings"

	gwebsocket "github.com/gorilla/websocket"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

const (
	tunnelPrefix    = "SPDY/3.1+"
	tunnelReadLimit = 32 << 10
)

// tunnel makes a WebSocket look like a connection that was upgraded to SPDY
// (KEP-4006, subprotocol SPDY/3.1+portforward.k8s.io): SPDY's bytes are the
// content of binary messages.
type tunnel struct {
	http.ResponseWriter
	r        *http.Request // the client's own
	hijacked bool
}

// newTunnel returns the SPDY side of a request for a tunnel.
func newTunnel(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	inner := r.Clone(r.Context())
	for name := range inner.Header {
		if strings.HasPrefix(name, "Sec-Websocket-") {
			inner.Header.Del(name)
		}
	}
	inner.Method, inner.Body = http.MethodPost, nil
	inner.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	inner.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	inner.Header.Del(httpstream.HeaderProtocolVersion)
	for _, p := range gwebsocket.Subprotocols(r) {
		if name, ok := strings.CutPrefix(p, tunnelPrefix); ok {
			inner.Header.Add(httpstream.HeaderProtocolVersion, name)
		}
	}
	return &tunnel{ResponseWriter: w, r: r}, inner
}

// WriteHeader implements http.ResponseWriter. The switch of protocols is said
// by the WebSocket's own handshake.
func (t *tunnel) WriteHeader(code int) {
	if code != http.StatusSwitchingProtocols {
		t.ResponseWriter.WriteHeader(code)
	}
}

// Hijack implements http.Hijacker: it makes the WebSocket.
func (t *tunnel) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if t.hijacked {
		return nil, nil, errors.New("the connection has been taken over already")
	}
	t.hijacked = true
	chosen := tunnelPrefix + t.Header().Get(httpstream.HeaderProtocolVersion)
	up := gwebsocket.Upgrader{
		ReadBufferSize: tunnelReadLimit, WriteBufferSize: tunnelReadLimit,
		Subprotocols: []string{chosen},
		// The client has shown its certificate: there is no browser to protect.
		CheckOrigin: func(*http.Request) bool { return true },
	}
	ws, err := up.Upgrade(t.ResponseWriter, t.r, nil)
	if err != nil {
		return nil, nil, err // Upgrade has answered
	}
	conn := portforward.NewTunnelingConnection("server", ws)
	return conn, bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn)), nil
}
