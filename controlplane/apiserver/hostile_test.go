package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/apiserver"
)

var idleWatches = flag.Int("watches", 500, "how many idle watches are measured")

// watchBound is what one idle watch may take of the server: stack and heap,
// without what the connection takes. Measured with 10,000: see the log of the
// test.
const watchBound = 32 << 10

// unread is an answer that nobody reads and that says when it was begun.
type unread struct {
	h     http.Header
	begun chan<- struct{}
	once  bool
}

func (w *unread) Header() http.Header         { return w.h }
func (w *unread) WriteHeader(int)             {}
func (w *unread) Write(b []byte) (int, error) { return len(b), nil }
func (w *unread) Flush() {
	if !w.once {
		w.once = true
		w.begun <- struct{}{}
	}
}

// TestIdleWatches measures what watches cost that see nothing.
func TestIdleWatches(t *testing.T) {
	c := newCluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	n := *idleWatches
	begun, ended := make(chan struct{}), make(chan struct{})
	before := memory()
	for range n {
		go func() {
			defer func() { ended <- struct{}{} }()
			r, _ := http.NewRequestWithContext(ctx, "GET", "/api/v1/configmaps?watch=1&resourceVersion=0&allowWatchBookmarks=true", nil)
			r.Header.Set("Authorization", "Bearer admin")
			c.srv.Handler().ServeHTTP(&unread{h: http.Header{}, begun: begun}, r)
		}()
	}
	for range n {
		<-begun
	}
	each := (memory() - before) / int64(n)
	cancel()
	for range n {
		<-ended
	}
	t.Logf("%d idle watches: %d bytes each", n, each)
	if each > watchBound {
		t.Errorf("an idle watch takes %d bytes, at most %d are allowed", each, watchBound)
	}
}

func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// watchedListener tells when the server has closed a connection.
type watchedListener struct {
	net.Listener
	closed chan net.Addr
}

type watchedConn struct {
	net.Conn
	closed chan net.Addr
}

func (l watchedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{conn, l.closed}, nil
}

func (w *watchedConn) Close() error {
	select {
	case w.closed <- w.RemoteAddr():
	default:
	}
	return w.Conn.Close()
}

// newImpatient is a cluster with short deadlines, whose closed connections can
// be seen.
func newImpatient(t *testing.T) (*cluster, <-chan net.Addr) {
	const patience = time.Second // that who reads and writes on a busy machine keeps
	closed := make(chan net.Addr, 100)
	return newCluster(t, func(cfg *apiserver.Config) {
		cfg.Listeners[0] = watchedListener{cfg.Listeners[0], closed}
		cfg.HeaderWithin, cfg.BodyWithin, cfg.WriteWithin = patience, patience, patience
	}), closed
}

// dial opens a connection on which the test writes HTTP/1.1 by hand.
func (c *cluster) dial(t *testing.T) *tls.Conn {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.ca)
	raw, err := net.Dial("tcp", strings.TrimPrefix(c.addr, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.(*net.TCPConn).SetReadBuffer(4 << 10)
	conn := tls.Client(raw, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	return conn
}

// waitClosed waits until the server has closed a connection of ours.
func waitClosed(t *testing.T, closed <-chan net.Addr, conn net.Conn) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case a := <-closed:
			if a.String() == conn.LocalAddr().String() {
				return
			}
		case <-late:
			t.Fatal("the server keeps the connection")
		}
	}
}

func TestSlowHeaders(t *testing.T) {
	c, closed := newImpatient(t)
	conn := c.dial(t)
	if _, err := io.WriteString(conn, "GET /version HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	waitClosed(t, closed, conn)
}

func TestSlowBody(t *testing.T) {
	c, closed := newImpatient(t)
	for _, head := range []string{
		"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nContent-Length: 1000\r\n",
		"PATCH /api/v1/namespaces/default/configmaps/x HTTP/1.1\r\nContent-Type: application/merge-patch+json\r\nTransfer-Encoding: chunked\r\n",
		"DELETE /api/v1/namespaces/default/configmaps/x HTTP/1.1\r\nContent-Length: 1000\r\n",
	} {
		conn := c.dial(t)
		if _, err := io.WriteString(conn, head+"Host: x\r\nAuthorization: Bearer admin\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%.20s: %v", head, err)
		}
		if resp.StatusCode < 400 || resp.StatusCode >= 500 {
			t.Errorf("%.20s: %s", head, resp.Status)
		}
		resp.Body.Close()
		waitClosed(t, closed, conn)
	}
}

// TestNeverReads: a client that takes nothing loses its connection, and the
// others do not notice.
func TestNeverReads(t *testing.T) {
	c, closed := newImpatient(t)
	fat := func(i int) {
		cm := configMap(i)
		cm.Data["key"] = strings.Repeat("v", 900<<10)
		if _, err := c.clientset(t, "admin").CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	watching := c.dial(t)
	if _, err := io.WriteString(watching, "GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadResponse(bufio.NewReaderSize(watching, 512), nil); err != nil {
		t.Fatal(err)
	}
	healthy := c.watch(t, "/api/v1/configmaps", url.Values{})
	for i := range 12 {
		fat(i)
		if f := healthy.next(); !strings.Contains(f.String(), configMap(i).Name) {
			t.Fatalf("watch beside one that is stuck: %.80s", f)
		}
	}
	waitClosed(t, closed, watching)

	listing := c.dial(t)
	if _, err := io.WriteString(listing, "GET /api/v1/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if r := c.do(t, "admin", "GET", "/api/v1/namespaces/default", ""); r.code != 200 {
		t.Errorf("get beside a list that is stuck: %d", r.code)
	}
	waitClosed(t, closed, listing)
}

// TestBadBodies: whatever is sent, the client is told what is wrong with it.
func TestBadBodies(t *testing.T) {
	c := newCluster(t)
	const cms = "/api/v1/namespaces/default/configmaps"
	if r := c.do(t, "admin", "POST", cms, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"}}`); r.code != 201 {
		t.Fatal(r.body)
	}
	const mergePatch, jsonPatch, apply = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"
	deep := strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	lists := strings.Repeat(`[`, 100_000) + strings.Repeat("]", 100_000)
	big := strings.Repeat(" ", 3<<20+1)
	for _, tt := range []struct {
		name, method, path, contentType, body string
		code                                  int
	}{
		{"deep object", "POST", cms, "application/json", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"d"},"data":` + deep + `}`, 400},
		{"deep list", "POST", cms, "application/json", lists, 400},
		{"deep YAML", "POST", cms, "application/yaml", lists, 400},
		{"deep merge patch", "PATCH", cms + "/c", mergePatch, deep, 400},
		{"deep JSON patch", "PATCH", cms + "/c", jsonPatch, lists, 400},
		{"deep apply", "PATCH", cms + "/c?fieldManager=m", apply, deep, 400},
		{"deep options", "DELETE", cms + "/x", "application/json", deep, 400},
		{"aliases", "POST", cms, "application/yaml", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n", 400},
		{"no protobuf", "POST", cms, "application/vnd.kubernetes.protobuf", "k8s\x00\xff\xff\xff\xff", 400},
		{"create as text", "POST", cms, "text/plain", "{}", 415},
		{"update as a form", "PUT", cms + "/c", "application/x-www-form-urlencoded", "a=b", 415},
		{"patch as JSON", "PATCH", cms + "/c", "application/json", "{}", 415},
		{"big create", "POST", cms, "application/json", big, 413},
		{"big update", "PUT", cms + "/c", "application/json", big, 413},
		{"big patch", "PATCH", cms + "/c", mergePatch, big, 413},
		{"big delete", "DELETE", cms + "/c", "application/json", big, 413},
		{"big delete of all", "DELETE", cms, "application/json", big, 413},
		{"big question", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json", big, 413},
		{"big eviction", "POST", "/api/v1/namespaces/default/pods/p/eviction", "application/json", big, 413},
	} {
		r := c.do(t, "admin", tt.method, tt.path, tt.body, "Content-Type: "+tt.contentType)
		if r.code != tt.code {
			t.Errorf("%s: %d %.300s, want %d", tt.name, r.code, r.body, tt.code)
		}
	}
	// The same where the length is not told before.
	req, _ := http.NewRequest("POST", c.addr+cms, io.MultiReader(strings.NewReader(big)))
	req.Header.Set("Authorization", "Bearer admin")
	resp, err := c.http(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("big body of unknown length: %s", resp.Status)
	}
}

// TestInvalidUTF8: JSON is UTF-8, and so is everything that is stored.
func TestInvalidUTF8(t *testing.T) {
	c := newCluster(t)
	const cms = "/api/v1/namespaces/default/configmaps"
	bad := []byte("{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"u\"},\"data\":{\"a\":\"x\xffy\"}}")
	r := c.do(t, "admin", "POST", cms, string(bad))
	if r.code == 201 {
		r = c.do(t, "admin", "GET", cms+"/u", "")
	}
	if r.code >= 500 || bytes.ContainsRune([]byte(r.body), 0xfffd) == false && r.code == 200 {
		t.Errorf("invalid UTF-8: %d %s", r.code, r.body)
	}
	for _, path := range []string{cms + "/%ff", cms + "?labelSelector=%ff", cms + "?fieldSelector=metadata.name%3D%ff", cms + "?continue=%ff"} {
		if r := c.do(t, "admin", "GET", path, ""); r.code >= 500 {
			t.Errorf("%s: %d %s", path, r.code, r.body)
		}
	}
	t.Logf("%d %s", r.code, r.body)
}
