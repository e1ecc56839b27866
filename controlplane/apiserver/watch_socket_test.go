package apiserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
)

// TestWatchSocket watches as a browser does, until the client leaves.
func TestWatchSocket(t *testing.T) {
	c := newCluster(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.ca)
	cfg, err := websocket.NewConfig("wss"+strings.TrimPrefix(c.addr, "https")+"/api/v1/namespaces?watch=1", "https://localhost")
	if err != nil {
		t.Fatal(err)
	}
	cfg.TlsConfig = &tls.Config{RootCAs: pool}
	cfg.Header.Set("Authorization", "Bearer admin")
	conn, err := websocket.DialConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	var msg string
	if err := websocket.Message.Receive(conn, &msg); err != nil || !strings.HasPrefix(msg, `{"type":"ADDED","object":{"kind":"Namespace"`) || strings.HasSuffix(msg, "\n") {
		t.Fatalf("what exists: %q %v", msg, err)
	}
	c.namespace(t, "later")
	if err := websocket.Message.Receive(conn, &msg); err != nil || !strings.Contains(msg, `"name":"later"`) {
		t.Fatalf("what comes: %q %v", msg, err)
	}
}
