package apiserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/controlplane/apiserver/reach"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/schema"
)

// agent is the server of node n1: it answers as a node agent does.
func agent(t *testing.T, cert tls.Certificate) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/containerLogs/default/p/c", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "log of c %s\n", r.URL.RawQuery)
		if r.URL.Query().Get("follow") == "true" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
	mux.HandleFunc("/containerLogs/default/p/init", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `container "init" in pod "p" is waiting to start: ContainerCreating`, http.StatusBadRequest)
	})
	mux.HandleFunc("/exec/default/p/c", func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n%s\n", r.Header.Get("Upgrade"), r.URL.RawQuery)
		rw.Flush()
		_, _ = io.Copy(conn, rw) // echo
	})
	mux.HandleFunc("/stats/summary", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "stats %q", r.Header.Get("Authorization"))
	})
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/other">x</a>`)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/there", http.StatusFound) })
	srv := httptest.NewUnstartedServer(mux)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

// newNodeCluster has a node whose agent runs, and a pod on it.
func newNodeCluster(t *testing.T, change ...func(*apiserver.Config)) *cluster {
	t.Helper()
	ca, err := pki.Make(nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.IssueServing(pki.Serving{Name: "system:node:n1", Hosts: []string{"n1"}})
	if err != nil {
		t.Fatal(err)
	}
	srv := agent(t, pair.TLS())
	change = append(change, func(cfg *apiserver.Config) {
		st := cfg.Store
		cfg.Way = reach.New(reach.Config{TLS: &tls.Config{RootCAs: ca.Pool()}, Also: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
			Hosts: func(name string) ([]string, error) {
				it := st.Get(schema.ResourceFor[*corev1.Node](), schema.Key{Name: name})
				if it == nil {
					return nil, errors.New("no such node")
				}
				return apiserver.NodeHosts(it.Object.(*corev1.Node)), nil
			}})
	})
	c := newCluster(t, change...)
	cs, ctx := c.clientset(t, "admin"), t.Context()
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(srv.URL, "https://"))
	n, _ := strconv.Atoi(port)
	node, err := cs.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(n)
	if _, err := cs.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := pod("p")
	p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "x"}}
	p.Spec.NodeName = "n1"
	if _, err := cs.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLogs(t *testing.T) {
	c := newNodeCluster(t)
	const path = "/api/v1/namespaces/default/pods/p/log"
	for _, tt := range []struct {
		query string
		code  int
		want  string
	}{
		{"?tailLines=5&timestamps=true&limitBytes=9&sinceSeconds=3&previous=true", 200, "log of c limitBytes=9&previous=true&sinceSeconds=3&tailLines=5&timestamps=true\n"},
		{"?container=init", 400, `container \"init\" in pod \"p\" is waiting to start: ContainerCreating`},
		{"?container=nothing", 400, "container nothing is not valid for pod p"},
	} {
		r := c.do(t, "admin", "GET", path+tt.query, "")
		if r.code != tt.code || !strings.Contains(r.body, tt.want) {
			t.Errorf("%s: %d %s, want %d %s", tt.query, r.code, r.body, tt.code, tt.want)
		}
	}
	// Followed lines come at once, not when a buffer is full.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := c.clientset(t, "admin").CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if line, err := bufio.NewReader(s).ReadString('\n'); err != nil || !strings.Contains(line, "follow=true") {
		t.Fatalf("followed line %q: %v", line, err)
	}
	if r := c.do(t, "reader", "GET", path, ""); r.code != 403 {
		t.Errorf("logs without permission: %d", r.code)
	}
}

// TestExec upgrades a connection through the server to the node and back.
func TestExec(t *testing.T) {
	c := newNodeCluster(t)
	dial := func(user, method string) (*http.Response, *bufio.Reader, net.Conn) {
		t.Helper()
		conn, err := tls.Dial("tcp", strings.TrimPrefix(c.addr, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(conn, "%s /api/v1/namespaces/default/pods/p/exec?command=echo&command=hi&stdin=true&stdout=true HTTP/1.1\r\n"+
			"Host: x\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n", method, user)
		br := bufio.NewReader(conn)
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		return resp, br, conn
	}
	resp, br, conn := dial("admin", "POST")
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != "SPDY/3.1" {
		t.Fatalf("upgrade: %s", resp.Status)
	}
	if line, err := br.ReadString('\n'); err != nil || line != "command=echo&command=hi&input=1&output=1\n" {
		t.Fatalf("the node is asked for %q: %v", line, err)
	}
	fmt.Fprintln(conn, "ping")
	if line, err := br.ReadString('\n'); err != nil || line != "ping\n" {
		t.Fatalf("echo %q: %v", line, err)
	}
	// Who may read pods may not run commands, by whatever method.
	for _, method := range []string{"GET", "POST"} {
		if resp, _, _ := dial("reader", method); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s exec without permission: %s", method, resp.Status)
		}
	}
}

func TestNodeProxy(t *testing.T) {
	c := newNodeCluster(t)
	r := c.do(t, "admin", "GET", "/api/v1/nodes/n1/proxy/stats/summary", "")
	if r.code != 200 || r.body != `stats ""` {
		t.Errorf("node proxy: %d %s; the client's credentials must stay here", r.code, r.body)
	}
	if r := c.do(t, "admin", "GET", "/api/v1/namespaces/default/pods/p/proxy/", ""); r.code != 400 || !strings.Contains(r.body, "address not allowed") {
		t.Errorf("proxy to a pod without address: %d %s", r.code, r.body)
	}
}
