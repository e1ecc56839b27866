package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/network"
)

// bed is a node with pods and a proxy, on the real kernel.
type bed struct {
	t    testing.TB
	net  *network.Network
	api  *client.Fake
	pods map[string]network.Attachment
}

var clusterCIDR = netip.MustParsePrefix("10.244.0.0/16")

func newBed(t testing.TB) *bed {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root for a network namespace of its own")
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n := network.New(network.Config{PodCIDR: netip.MustParsePrefix("10.244.0.0/24"), ClusterCIDR: clusterCIDR,
		ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"), StateDir: filepath.Join(dir, "state"), NetNSDir: filepath.Join(dir, "netns")})
	if err := n.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	defaultRoute(t)
	b := &bed{t: t, net: n, api: client.NewFake(), pods: map[string]network.Attachment{}}
	t.Cleanup(func() {
		for uid := range b.pods {
			n.Detach(context.Background(), uid)
		}
		// The next test gives out the same addresses at once.
		eventually(t, "old pods are gone", func() bool {
			links, err := netlink.LinkList()
			return err == nil && !slices.ContainsFunc(links, func(l netlink.Link) bool { return strings.HasPrefix(l.Attrs().Name, "wv") })
		})
		syscall.Unmount(filepath.Join(dir, "netns"), syscall.MNT_DETACH)
	})
	return b
}

// defaultRoute leads to nowhere, but the kernel routes before it translates.
func defaultRoute(t testing.TB) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "up0"
	link := &netlink.Bridge{LinkAttrs: attrs}
	addr, _ := netlink.ParseAddr("198.51.100.1/24")
	for _, err := range []error{netlink.LinkAdd(link), netlink.AddrAdd(link, addr), netlink.LinkSetUp(link),
		netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.IPv4(198, 51, 100, 2)})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { netlink.LinkDel(link) })
}

// pod starts a pod that answers every connection and datagram on port 8080 with
// its name and the address it was called from.
func (b *bed) pod(name string) netip.Addr {
	b.t.Helper()
	a, err := b.net.Attach(b.t.Context(), network.Pod{UID: name, Name: name})
	if err != nil {
		b.t.Fatal(err)
	}
	b.pods[name] = a
	var l net.Listener
	var u net.PacketConn
	if err := in(b.t, a.NetNS, func() (err error) {
		if l, err = net.Listen("tcp4", ":8080"); err != nil {
			return err
		}
		u, err = net.ListenPacket("udp4", ":8080")
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, name, " ", c.RemoteAddr().(*net.TCPAddr).IP)
			c.Close()
		}
	})
	wg.Go(func() {
		buf := make([]byte, 100)
		for {
			_, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			u.WriteTo([]byte(name), from)
		}
	})
	b.t.Cleanup(func() { l.Close(); u.Close(); wg.Wait() })
	// The kernel takes a moment to let packets through a new pair.
	eventually(b.t, "pod answers", func() bool {
		c, err := net.DialTimeout("tcp4", netip.AddrPortFrom(a.IPs[0], 8080).String(), 50*time.Millisecond)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return a.IPs[0]
}

// run starts the proxy and waits for its first rules.
func (b *bed) run() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := New(Config{Cache: b.api.Cache(), NodeName: "a", ClusterCIDR: clusterCIDR})
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
		c, err := nftables.New()
		if err != nil {
			b.t.Fatal(err)
		}
		c.DelTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName})
		if err := c.Flush(); err != nil {
			b.t.Error(err)
		}
	})
	select {
	case <-p.Synced():
	case err := <-done:
		done <- err
		b.t.Fatal(err)
	case <-time.After(10 * time.Second):
		b.t.Fatal("no rules after 10 s")
	}
}

// call connects from a pod, or from the node for "", and returns what the
// server said.
func (b *bed) call(from, network, addr string) (string, error) {
	b.t.Helper()
	var out []byte
	do := func() error {
		c, err := net.DialTimeout(network, addr, 2*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(2 * time.Second))
		if network == "udp4" {
			c.Write([]byte("hi"))
			buf := make([]byte, 100)
			n, err := c.Read(buf)
			out = buf[:n]
			return err
		}
		out, err = io.ReadAll(c)
		return err
	}
	if from == "" {
		err := do()
		return string(out), err
	}
	err := in(b.t, b.pods[from].NetNS, do)
	return string(out), err
}

// eventually waits for a condition that the proxy brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 300 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never came: %s", what)
}

func in(t testing.TB, path string, fn func() error) error {
	t.Helper()
	ns, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	return onThread(func() error {
		if err := netns.Set(ns); err != nil {
			return err
		}
		return fn()
	})
}

// onThread runs fn on a thread that ends afterwards: never the main one.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() != syscall.Getpid() {
			done <- fn()
			return
		}
		defer runtime.UnlockOSThread()
		done <- onThread(fn)
	}()
	return <-done
}

func web(change ...func(*corev1.Service)) *corev1.Service {
	return newService("web", "10.96.0.80", 80, append([]func(*corev1.Service){func(s *corev1.Service) {
		s.Spec.Ports[0].NodePort = 30080
	}}, change...)...)
}

// bridgeNetfilter runs a test with br_netfilter working on bridges and without,
// where the module is loaded.
func bridgeNetfilter(t *testing.T, test func(t *testing.T)) {
	const path = "/proc/sys/net/bridge/bridge-nf-call-iptables"
	if _, err := os.Stat(path); err != nil {
		test(t)
		return
	}
	for _, v := range []string{"0", "1"} {
		if err := os.WriteFile(path, []byte(v), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Run("bridge-nf "+v, test)
	}
}

func TestSpreadOverEndpoints(t *testing.T) { bridgeNetfilter(t, testSpread) }

func testSpread(t *testing.T) {
	b := newBed(t)
	var eps []discoveryv1.Endpoint
	for i := range 3 {
		eps = append(eps, ep(b.pod(fmt.Sprint("web-", i)).String(), "a"))
	}
	client := b.pod("client")
	b.api.Put(web(func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.7"} }))
	b.api.Put(newSlice("web", "web-x", 8080, eps...))
	b.run()
	for _, c := range []struct{ from, addr, seen string }{
		{"client", "10.96.0.80:80", client.String()}, // pods keep their address
		{"", "10.96.0.80:80", "10.244.0.1"},
		{"", "127.0.0.1:30080", "10.244.0.1"},
		{"", "198.51.100.1:30080", "10.244.0.1"},
		{"", "203.0.113.7:80", "10.244.0.1"},
		{"client", "198.51.100.1:30080", "10.244.0.1"},
		{"client", "10.244.0.1:30080", "10.244.0.1"},
	} {
		seen := map[string]int{}
		for range 90 {
			got, err := b.call(c.from, "tcp4", c.addr)
			if err != nil {
				t.Fatalf("%s from %q: %v", c.addr, c.from, err)
			}
			name, src, _ := strings.Cut(got, " ")
			if src != c.seen {
				t.Fatalf("%s from %q: server saw %s, want %s", c.addr, c.from, src, c.seen)
			}
			seen[name]++
		}
		for name, n := range seen {
			if len(seen) != 3 || n < 10 { // 30 are expected; fewer than 10 once in 10^6
				t.Errorf("%s from %q: %s answered %d of 90: %v", c.addr, c.from, name, n, seen)
			}
		}
	}
}

func TestNobodyThereIsRefusedAtOnce(t *testing.T) {
	b := newBed(t)
	b.pod("client")
	b.api.Put(web())
	b.run()
	for _, c := range []struct{ from, addr string }{
		{"", "10.96.0.80:80"}, {"client", "10.96.0.80:80"}, {"", "127.0.0.1:30080"}, {"client", "10.244.0.1:30080"},
	} {
		start := time.Now()
		if _, err := b.call(c.from, "tcp4", c.addr); !errors.Is(err, syscall.ECONNREFUSED) || time.Since(start) > time.Second {
			t.Errorf("%s from %q: %v after %v, want refused at once", c.addr, c.from, err, time.Since(start))
		}
	}
	// An endpoint comes, and goes again.
	ip := b.pod("web-0").String()
	b.api.Put(newSlice("web", "web-x", 8080, ep(ip, "a")))
	eventually(t, "answer", func() bool { _, err := b.call("client", "tcp4", "10.96.0.80:80"); return err == nil })
	b.api.Put(newSlice("web", "web-x", 8080))
	eventually(t, "refusal", func() bool {
		_, err := b.call("client", "tcp4", "10.96.0.80:80")
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

func TestRemovedEndpointGetsNothingMore(t *testing.T) {
	b := newBed(t)
	x, y := b.pod("web-0").String(), b.pod("web-1").String()
	b.pod("client")
	b.api.Put(web())
	b.api.Put(newSlice("web", "web-x", 8080, ep(x, "a"), ep(y, "a")))
	b.run()
	b.api.Put(newSlice("web", "web-x", 8080, ep(x, "a", "not ready"), ep(y, "a")))
	eventually(t, "only web-1 answers", func() bool {
		for range 20 {
			got, err := b.call("client", "tcp4", "10.96.0.80:80")
			if err != nil || !strings.HasPrefix(got, "web-1") {
				return false
			}
		}
		return true
	})
}

func TestPodReachesItselfThroughItsService(t *testing.T) { bridgeNetfilter(t, testHairpin) }

func testHairpin(t *testing.T) {
	b := newBed(t)
	ip := b.pod("web-0").String()
	b.api.Put(web())
	b.api.Put(newSlice("web", "web-x", 8080, ep(ip, "a")))
	b.run()
	if got, err := b.call("web-0", "tcp4", "10.96.0.80:80"); err != nil || got != "web-0 10.244.0.1" {
		t.Fatalf("got %q, %v; want an answer, with the node's address as source", got, err)
	}
}

func TestAffinity(t *testing.T) {
	b := newBed(t)
	var ips []string
	var eps []discoveryv1.Endpoint
	for i := range 3 {
		ips = append(ips, b.pod(fmt.Sprint("web-", i)).String())
		eps = append(eps, ep(ips[i], "a"))
	}
	b.pod("client")
	b.api.Put(web(func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }))
	b.api.Put(newSlice("web", "web-x", 8080, eps...))
	b.run()
	first := ""
	for range 20 {
		got, err := b.call("client", "tcp4", "10.96.0.80:80")
		if err != nil || (first != "" && got != first) {
			t.Fatalf("got %q, %v after %q", got, err, first)
		}
		first = got
	}
	// The endpoint goes: the client is given to another and stays there.
	var rest []discoveryv1.Endpoint
	for i, e := range eps {
		if !strings.HasPrefix(first, fmt.Sprint("web-", i)) {
			rest = append(rest, e)
		}
	}
	b.api.Put(newSlice("web", "web-x", 8080, rest...))
	second := ""
	eventually(t, "another endpoint", func() bool {
		second, _ = b.call("client", "tcp4", "10.96.0.80:80")
		return second != "" && second != first
	})
	for range 10 {
		if got, err := b.call("client", "tcp4", "10.96.0.80:80"); err != nil || got != second {
			t.Fatalf("got %q, %v after %q", got, err, second)
		}
	}
}

// A UDP client that keeps its socket is moved off an endpoint that is gone.
func TestUDPFlowIsMoved(t *testing.T) {
	b := newBed(t)
	x, y := b.pod("dns-0").String(), b.pod("dns-1").String()
	b.pod("client")
	udp := func(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
		s.Ports[0].Protocol = ptr.To(corev1.ProtocolUDP)
		return s
	}
	b.api.Put(newService("dns", "10.96.0.53", 53, func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }))
	b.api.Put(udp(newSlice("dns", "dns-x", 8080, ep(x, "a"))))
	b.run()
	var c net.Conn
	if err := in(t, b.pods["client"].NetNS, func() (err error) { c, err = net.Dial("udp4", "10.96.0.53:53"); return err }); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func() string {
		c.SetDeadline(time.Now().Add(time.Second))
		c.Write([]byte("hi"))
		buf := make([]byte, 100)
		n, _ := c.Read(buf)
		return string(buf[:n])
	}
	if got := ask(); got != "dns-0" {
		t.Fatalf("got %q", got)
	}
	b.api.Put(udp(newSlice("dns", "dns-x", 8080, ep(y, "a"))))
	eventually(t, "the flow moves to dns-1", func() bool { return ask() == "dns-1" })
}

// Local policy: traffic from outside stays on the node with its source, that
// from inside may go anywhere.
func TestExternalTrafficPolicyLocal(t *testing.T) {
	b := newBed(t)
	ip := b.pod("web-0").String()
	b.pod("client")
	b.api.Put(web(func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }))
	b.api.Put(newSlice("web", "web-x", 8080, ep(ip, "elsewhere")))
	b.run()
	for _, from := range []string{"", "client"} {
		if got, err := b.call(from, "tcp4", "198.51.100.1:30080"); err != nil || !strings.HasPrefix(got, "web-0") {
			t.Errorf("from %q: %q, %v", from, got, err)
		}
	}
}

func TestTableRemovedByHand(t *testing.T) {
	k, err := openNFT(clusterCIDR, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Replace(nil); err != nil {
		t.Fatal(err)
	}
	if ok, err := k.Intact(); !ok || err != nil {
		t.Fatalf("intact %v, %v", ok, err)
	}
	c, _ := nftables.New()
	c.DelTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName})
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if ok, err := k.Intact(); ok || err != nil {
		t.Fatalf("intact %v, %v", ok, err)
	}
	// A refused transaction changes nothing and leaves nothing behind.
	vip := VIP{netip.MustParseAddr("10.96.0.1"), protoTCP, 80}
	if err := k.Apply([]Op{{Verb: AddVIP, Map: Closed, VIP: vip}}); err == nil {
		t.Fatal("the kernel took a change of a table that is gone")
	}
	if err := k.Replace([]Op{{Verb: AddVIP, Map: Closed, VIP: vip}}); err != nil {
		t.Fatal(err)
	}
}
