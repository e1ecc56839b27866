//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// machines are several of them on one link, each in a network namespace of its
// own. Servers run no pods: containerd runs on the agents.
type machines struct {
	*cluster // the first server
	hub      string
	all      map[string]*cluster
}

func newMachines(t *testing.T, names ...string) *machines {
	t.Helper()
	m := &machines{all: map[string]*cluster{}}
	for i, name := range names {
		c := newCluster(t)
		if i == 0 {
			m.cluster, m.hub = c, c.netns+"-l"
			m.host("ip", "netns", "add", m.hub)
			t.Cleanup(func() { m.host("ip", "netns", "del", m.hub) })
			m.host("ip", "-n", m.hub, "link", "add", "br0", "type", "bridge")
			m.host("ip", "-n", m.hub, "link", "set", "br0", "up")
		}
		m.all[name] = c
		m.host("ip", "-n", m.hub, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", c.netns)
		m.host("ip", "-n", m.hub, "link", "set", name, "master", "br0", "up")
		m.host("ip", "-n", c.netns, "addr", "add", address(i)+"/24", "dev", "eth0")
		m.host("ip", "-n", c.netns, "link", "set", "eth0", "up")
		m.host("ip", "-n", c.netns, "route", "add", "default", "via", address(253), "dev", "eth0")
	}
	return m
}

func address(i int) string { return fmt.Sprintf("192.0.2.%d", i+1) }

// link takes a machine's cable out, or puts it back.
func (m *machines) link(name, state string) {
	m.t.Helper()
	m.host("ip", "-n", m.hub, "link", "set", name, state)
}

func (m *machines) server(name string, more ...string) {
	m.t.Helper()
	c := m.all[name]
	c.start(name, append([]string{"server", "--no-agent", "--listen", "0.0.0.0:6443", "--data-dir", c.data, "--node-name", name}, more...)...)
}

// token makes a token and returns the flags to join by.
func (m *machines) token(role string) []string {
	m.t.Helper()
	var made struct{ Token, Server, CAHash string }
	m.eventually(20*time.Second, "a token is made", func() error {
		out, err := m.run(m.bin("writ"), "token", "create", "--data-dir", m.data, "--role", role, "-o", "json")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return json.Unmarshal([]byte(out), &made)
	})
	return []string{"--server", made.Server, "--token", made.Token, "--ca-hash", made.CAHash}
}

type serverStatus struct {
	Name           string
	Learner, Ready bool
	Leader         bool
}

// servers are the members as one of them knows them.
func (m *machines) servers(at string) (all []serverStatus, leader string, err error) {
	out, err := m.all[at].run(m.bin("kubectl"), "get", "--raw", "/servers")
	if err != nil {
		return nil, "", fmt.Errorf("%w: %s", err, out)
	}
	err = json.Unmarshal([]byte(out), &all)
	for _, s := range all {
		if s.Leader {
			leader = s.Name
		}
	}
	return all, leader, err
}

// settled waits until so many servers have a vote and one leads, and names it.
func (m *machines) settled(at string, count int) (leader string) {
	m.t.Helper()
	took := m.eventually(30*time.Second, fmt.Sprintf("%d servers have a vote", count), func() error {
		all, l, err := m.servers(at)
		voters := 0
		for _, s := range all {
			if s.Ready && !s.Learner {
				voters++
			}
		}
		if err != nil || voters != count || l == "" {
			return fmt.Errorf("%+v, leader %q: %w", all, l, err)
		}
		leader = l
		return nil
	})
	m.t.Logf("%d servers, %s leads (%v)", count, leader, took.Round(time.Millisecond))
	return leader
}

// client calls the API server of one machine, from within its namespace, with
// all rights.
func (m *machines) client(name string) *http.Client {
	m.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(m.all[name].data, "admin.kubeconfig"))
	if err != nil {
		m.t.Fatal(err)
	}
	tlsConfig, err := clientrest.TLSConfigFor(cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	tlsConfig.MinVersion = tls.VersionTLS12
	tr := &http.Transport{TLSClientConfig: tlsConfig, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dialIn(ctx, m.all[name].netns, network, addr)
	}}
	m.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second}
}

// dialIn connects from within a network namespace.
func dialIn(ctx context.Context, netns, network, addr string) (net.Conn, error) {
	type result struct {
		c   net.Conn
		err error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		f, err := os.Open("/run/netns/" + netns)
		if err == nil {
			defer f.Close()
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
		}
		if err != nil {
			done <- result{err: err}
			return
		}
		// An address has no names to resolve: all of it happens on this thread.
		c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, network, addr)
		done <- result{c, err}
	}()
	r := <-done
	return r.c, r.err
}

func do(c *http.Client, method, path string, body string) (code int, text string, err error) {
	req, err := http.NewRequest(method, "https://127.0.0.1:6443"+path, bytes.NewBufferString(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// writer writes all the time, to whichever server takes it, and remembers what
// was acknowledged.
type writer struct {
	mu    sync.Mutex
	acked []string
	gap   time.Duration // the longest without an acknowledged write
	last  time.Time
}

func (m *machines) writes(ctx context.Context, names ...string) *writer {
	w := &writer{last: time.Now()}
	var clients []*http.Client
	for _, n := range names {
		c := m.client(n)
		c.Timeout = 3 * time.Second
		clients = append(clients, c)
	}
	go func() {
		for i, at := 0, 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("w%d", i)
			code, _, err := do(clients[at], http.MethodPost, "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`"}}`)
			if err != nil || code != http.StatusCreated {
				at = (at + 1) % len(clients)
				time.Sleep(20 * time.Millisecond)
				continue
			}
			w.mu.Lock()
			w.acked = append(w.acked, name)
			w.gap, w.last = max(w.gap, time.Since(w.last)), time.Now()
			w.mu.Unlock()
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return w
}

// longest is the longest gap since it was asked for last.
func (w *writer) longest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := max(w.gap, time.Since(w.last))
	w.gap = 0
	return g
}

func (w *writer) count() int { w.mu.Lock(); defer w.mu.Unlock(); return len(w.acked) }

// kept says that a server has everything that was acknowledged.
func (m *machines) kept(w *writer, at string) {
	m.t.Helper()
	w.mu.Lock()
	want := slices.Clone(w.acked)
	w.mu.Unlock()
	c, text := m.client(at), ""
	m.eventually(15*time.Second, at+" answers", func() error { // it may only just be back
		code, got, err := do(c, http.MethodGet, "/api/v1/namespaces/default/configmaps", "")
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("%d %v %s", code, err, got)
		}
		text = got
		return nil
	})
	lost := slices.DeleteFunc(slices.Clone(want), func(n string) bool { return strings.Contains(text, `"name":"`+n+`"`) })
	if len(lost) > 0 {
		m.t.Errorf("%s lacks %d of %d acknowledged writes: %v", at, len(lost), len(want), lost)
	}
	m.t.Logf("%s has all %d acknowledged writes", at, len(want))
}

const everywhere = `apiVersion: apps/v1
kind: Deployment
metadata: {name: everywhere, namespace: default}
spec:
  replicas: 4
  selector: {matchLabels: {app: everywhere}}
  template:
    metadata: {labels: {app: everywhere}}
    spec:
      terminationGracePeriodSeconds: 0
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: everywhere}}}
      containers: [{name: web, image: "writ.local/demo:v1"}]
`

// TestServers: three servers are one cluster. Each answers, one acts; the loss of
// the one that leads, by death or by its cable, costs seconds and nothing that
// was acknowledged.
func TestServers(t *testing.T) {
	m := newMachines(t, "s1", "s2", "s3", "a1", "a2")
	began := time.Now()
	step := func(what string) { t.Logf("%5.1fs %s", time.Since(began).Seconds(), what) }

	m.server("s1", "--seed", "guestbook")
	byServer, byAgent := m.token("server"), m.token("agent")
	contains(t, "a server by the token of an agent", m.all["s2"].refused(m.bin("writ"), append([]string{"server", "--no-agent", "--data-dir", m.all["s2"].data + "-no", "--node-name", "s2"}, byAgent...)...),
		"may not post /servers/join", "--role server")
	contains(t, "a server without a hash", m.all["s2"].refused(m.bin("writ"), append([]string{"server", "--no-agent", "--data-dir", m.all["s2"].data + "-no", "--node-name", "s2"}, byServer[:4]...)...), "--ca-hash")

	// One that dies while it joins comes through with the same command.
	m.server("s2", byServer...)
	for _, wait := range []time.Duration{700 * time.Millisecond, 1300 * time.Millisecond, 2 * time.Second} {
		time.Sleep(wait)
		m.all["s2"].stop("s2", syscall.SIGKILL)
		m.server("s2", byServer...)
	}
	m.settled("s1", 2)
	m.server("s3", byServer...)
	leader := m.settled("s1", 3)
	step("three servers")

	for _, a := range []string{"a1", "a2"} {
		c := m.all[a]
		c.start(a, append([]string{"agent", "--data-dir", c.data, "--node-name", a}, byAgent...)...)
	}
	admin := func(at string, args ...string) string {
		t.Helper()
		return m.all[at].must(m.bin("kubectl"), append([]string{"--kubeconfig=" + filepath.Join(m.all[at].data, "admin.kubeconfig")}, args...)...)
	}
	file := filepath.Join(m.dir, "everywhere.yaml")
	m.cluster.write(file, everywhere)
	m.all["s2"].ready()
	admin("s2", "apply", "-f", file)
	rolledOut := func(at string) {
		t.Helper()
		m.all[at].kubectl("rollout", "status", "deploy/everywhere", "--timeout=60s")
		nodes := m.all[at].kubectl("get", "pods", "-l", "app=everywhere", "-o", "jsonpath={.items[*].spec.nodeName}")
		contains(t, "the nodes of the pods", nodes, "a1", "a2")
	}
	rolledOut("s3")
	step("a Deployment on both nodes: " + strings.TrimSpace(m.all["s3"].kubectl("get", "endpointslice", "kubernetes", "-o", "jsonpath={.endpoints[*].addresses}")))

	// A push to a server that does not lead is taken by the one that does, and is
	// on most of them when it is answered.
	repo := m.all["s2"].clone("repo")
	pushed := func(what string) {
		t.Helper()
		m.cluster.write(filepath.Join(repo, "pushed.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: pushed, namespace: default}\ndata: {what: "+what+"}\n")
		m.all["s2"].commit(repo, what)
		m.all["s2"].push(repo)
	}
	applied := func(at, what string) {
		t.Helper()
		m.eventually(30*time.Second, what+" is applied", func() error {
			if got, err := m.all[at].run(m.bin("kubectl"), "get", "cm", "pushed", "-o", "jsonpath={.data.what}"); got != what {
				return fmt.Errorf("%s: %w", got, err)
			}
			return nil
		})
	}
	pushed("first")
	applied("s3", "first")
	step("a push to s2")

	// The one that leads dies.
	names := []string{"s1", "s2", "s3"}
	others := func(not string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == not })
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := m.writes(ctx, append([]string{leader}, others(leader)...)...)
	time.Sleep(2 * time.Second)
	w.longest()
	dead := leader
	pushed("last words")
	m.all[dead].stop(dead, syscall.SIGKILL)
	before := w.count()
	m.eventually(20*time.Second, "writes go on", func() error {
		if w.count() < before+20 {
			return fmt.Errorf("%d writes", w.count()-before)
		}
		return nil
	})
	gap := w.longest()
	step(fmt.Sprintf("%s killed: writes went on after %v", dead, gap.Round(time.Millisecond)))
	if gap > 10*time.Second {
		t.Errorf("no write for %v", gap)
	}
	at := others(dead)[0]
	leader = m.settled(at, 3) // its lease still runs
	for _, n := range others(dead) {
		m.kept(w, n)
	}
	admin(at, "scale", "deploy/everywhere", "--replicas=6")
	rolledOut(at)
	applied(at, "last words")
	step("the next one acts, and the nodes have found it")
	m.eventually(30*time.Second, "the dead one is no endpoint", func() error {
		if got := m.all[at].kubectl("get", "endpointslice", "kubernetes", "-o", "jsonpath={.endpoints[*].addresses[0]}"); len(strings.Fields(got)) != 2 {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
	m.server(dead) // it has joined: it needs no token
	m.settled(at, 3)
	m.kept(w, dead)
	pushed("to the next")
	applied(dead, "to the next")
	step(dead + " is back")

	// A node dies, and is missed while the cable of the leader is out.
	m.all["a2"].stop("a2", syscall.SIGKILL)
	lone := m.settled(at, 3)
	w.longest()
	m.link(lone, "down")
	at = others(lone)[0]
	m.eventually(20*time.Second, "another one leads", func() error {
		_, l, err := m.servers(at)
		if err != nil || l == lone || l == "" {
			return fmt.Errorf("leader %q: %w", l, err)
		}
		return nil
	})
	before = w.count()
	m.eventually(20*time.Second, "writes go on", func() error {
		if w.count() < before+20 {
			return fmt.Errorf("%d writes", w.count()-before)
		}
		return nil
	})
	gap = w.longest()
	step(fmt.Sprintf("%s cut off: writes went on after %v", lone, gap.Round(time.Millisecond)))
	if gap > 15*time.Second {
		t.Errorf("no write for %v", gap)
	}
	alone := m.client(lone)
	for _, c := range []struct{ method, path, body string }{
		{http.MethodGet, "/api/v1/namespaces/default/configmaps", ""},
		{http.MethodGet, "/api/v1/namespaces/default/configmaps/w0", ""},
		{http.MethodPost, "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"never"}}`},
	} {
		code, text, err := do(alone, c.method, c.path, c.body)
		if err != nil || code != http.StatusServiceUnavailable {
			t.Errorf("%s %s at the one that is cut off: %d %v %s", c.method, c.path, code, err, text)
		}
	}
	if code, _, err := do(alone, http.MethodGet, "/api/v1/namespaces/default/configmaps?resourceVersion=0", ""); err != nil || code != http.StatusOK {
		t.Errorf("what it has is not read with resourceVersion=0: %d %v", code, err)
	}
	m.link(lone, "up")
	m.settled(at, 3)
	cancel()
	time.Sleep(200 * time.Millisecond)
	for _, n := range names {
		m.kept(w, n)
	}
	if code, _, err := do(alone, http.MethodGet, "/api/v1/namespaces/default/configmaps/never", ""); err != nil || code != http.StatusNotFound {
		t.Errorf("what was refused is there: %d %v", code, err)
	}
	pushed("after all")
	applied(lone, "after all")
	step(lone + " is back")

	m.eventually(70*time.Second, "the node that died is missed", func() error {
		if got := m.all[at].kubectl("get", "node", "a2", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`); got != "Unknown" {
			return fmt.Errorf("Ready=%s", got)
		}
		return nil
	})
	m.all["a2"].start("a2", "agent", "--data-dir", m.all["a2"].data, "--node-name", "a2")
	m.all[at].ready()
	step("the node was missed and is back")

	// One leaves for good, and another machine takes its place and name.
	gone := others(m.settled(at, 3))[1]
	at = others(gone)[0]
	admin(at, "delete", "--raw", "/servers/"+gone)
	m.settled(at, 2)
	m.eventually(20*time.Second, "the one that was removed ends", func() error {
		if !strings.Contains(tail(m.all[gone].log(gone), 5), "was removed from the cluster") {
			return fmt.Errorf("%s", tail(m.all[gone].log(gone), 2))
		}
		return nil
	})
	m.all[gone].stop(gone, syscall.SIGKILL)
	if err := os.RemoveAll(m.all[gone].data); err != nil {
		t.Fatal(err)
	}
	byServer[1] = "https://" + address(slices.Index(names, at)) + ":6443"
	m.server(gone, byServer...)
	m.settled(at, 3)
	m.kept(w, gone)
	step(gone + " was removed and has joined again")
	rolledOut(gone)
}
