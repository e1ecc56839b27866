package network

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
)

var testCIDR = netip.MustParsePrefix("10.244.7.0/24")

func setup(t testing.TB, dir string) *Network {
	t.Helper()
	n := New(Config{
		PodCIDR:     testCIDR,
		ClusterCIDR: netip.MustParsePrefix("10.244.0.0/16"),
		ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
		DNSAddr:     netip.MustParseAddr("10.96.0.10"),
		StateDir:    filepath.Join(dir, "state"),
		NetNSDir:    filepath.Join(dir, "netns"),
	})
	if err := n.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		all, _ := n.Attached(context.Background())
		for uid := range all {
			n.Detach(context.Background(), uid)
		}
		n.host.Close()
		for range 3 { // every Setup of a test may have mounted once
			netlinkUnmount(filepath.Join(dir, "netns"))
		}
	})
	return n
}

func attach(t testing.TB, n *Network, uid string) Attachment {
	t.Helper()
	a, err := n.Attach(t.Context(), Pod{UID: uid, Namespace: "shop", Name: uid})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// serve answers every connection with the address it came from.
func serve(t testing.TB, ns, addr string) {
	t.Helper()
	var l net.Listener
	listen := func() (err error) { l, err = net.Listen("tcp4", addr); return err }
	var err error
	if ns == "" {
		err = listen()
	} else {
		err = in(t, ns, listen)
	}
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, c.RemoteAddr().(*net.TCPAddr).IP)
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
}

func dial(addr string) (string, error) {
	c, err := net.DialTimeout("tcp4", addr, 5*time.Second) // a lost SYN comes again after one and three
	if err != nil {
		return "", err
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	return string(b), err
}

// call dials from inside a pod and returns the source address the server saw.
func call(t testing.TB, ns, addr string) (string, error) {
	t.Helper()
	var got string
	err := in(t, ns, func() (err error) { got, err = dial(addr); return err })
	return got, err
}

func TestPodsReachEachOther(t *testing.T) {
	n := setup(t, t.TempDir())
	a, b := attach(t, n, "uid-a"), attach(t, n, "uid-b")
	if a.IPs[0] == b.IPs[0] || !testCIDR.Contains(a.IPs[0]) || a.Gateway != netip.MustParseAddr("10.244.7.1") || a.MTU != 1500 {
		t.Fatalf("attachments %+v %+v", a, b)
	}
	serve(t, b.NetNS, ":8080")
	serve(t, "", "10.96.0.10:53")
	for _, c := range []struct{ name, ns, addr, from string }{
		{"pod to pod", a.NetNS, b.IPs[0].String() + ":8080", a.IPs[0].String()},
		{"pod to DNS", a.NetNS, "10.96.0.10:53", a.IPs[0].String()},
		{"pod to itself", b.NetNS, "127.0.0.1:8080", "127.0.0.1"},
	} {
		if got, err := call(t, c.ns, c.addr); err != nil || got != c.from {
			t.Errorf("%s: got %q, %v; want source %s", c.name, got, err, c.from)
		}
	}
	if got, err := dial(b.IPs[0].String() + ":8080"); err != nil || got != "10.244.7.1" {
		t.Errorf("node to pod: got %q, %v", got, err)
	}
	uplink(t, n)
	if _, err := call(t, a.NetNS, "10.96.5.5:80"); err == nil || !strings.Contains(err.Error(), "no route to host") {
		t.Errorf("service address that nobody has: got %v, want no route to host", err)
	}
}

// uplink gives the node a way out, that ends in nothing.
func uplink(t *testing.T, n *Network) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "up0"
	link := &netlink.Bridge{LinkAttrs: attrs}
	addr, _ := netlink.ParseAddr("198.51.100.1/24")
	for _, err := range []error{n.host.LinkAdd(link), n.host.AddrAdd(link, addr), n.host.LinkSetUp(link),
		n.host.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.IPv4(198, 51, 100, 2)})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { netlink.LinkDel(link) })
}

func TestAttachIsIdempotentAndSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	n := setup(t, dir)
	a := attach(t, n, "uid-a")
	serve(t, a.NetNS, ":8080")
	if again := attach(t, n, "uid-a"); again.IPs[0] != a.IPs[0] || again.NetNS != a.NetNS {
		t.Fatalf("second attach gave %+v, first %+v", again, a)
	}

	n2 := setup(t, dir) // a new process over the same directories
	if got := attach(t, n2, "uid-a"); got.IPs[0] != a.IPs[0] {
		t.Fatalf("after restart %+v, before %+v", got, a)
	}
	if _, err := dial(a.IPs[0].String() + ":8080"); err != nil {
		t.Fatalf("connection of the pod did not survive: %v", err)
	}
	if got, _ := n2.Attached(t.Context()); len(got) != 1 || got["uid-a"].NetNS != a.NetNS {
		t.Fatalf("attached %+v", got)
	}

	// The state directory is lost, the pods run on.
	if err := os.RemoveAll(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	n3 := setup(t, dir)
	if got := attach(t, n3, "uid-a"); got.IPs[0] != a.IPs[0] {
		t.Fatalf("without state %+v, before %+v", got, a)
	}
	if b := attach(t, n3, "uid-b"); b.IPs[0] == a.IPs[0] {
		t.Fatalf("address %s given twice", b.IPs[0])
	}
}

func TestDetachFreesEverything(t *testing.T) {
	n := setup(t, t.TempDir())
	a := attach(t, n, "uid-a")
	for range 2 {
		if err := n.Detach(t.Context(), "uid-a"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(a.NetNS); !os.IsNotExist(err) {
		t.Errorf("namespace is still there: %v", err)
	}
	waitGone(t, vethName("uid-a"))
	if got, _ := n.Attached(t.Context()); len(got) != 0 {
		t.Errorf("attached %+v", got)
	}
}

// waitGone waits for the kernel to free a veth, which it does in its own time.
func waitGone(t *testing.T, name string) {
	t.Helper()
	for range 500 {
		if _, err := netlink.LinkByName(name); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s is still there", name)
}

func TestHostNetworkAndBadUIDs(t *testing.T) {
	n := setup(t, t.TempDir())
	a, err := n.Attach(t.Context(), Pod{UID: "uid-h", HostNetwork: true})
	if err != nil || a.NetNS != "" || a.IPs != nil {
		t.Errorf("host network pod: %+v, %v", a, err)
	}
	for _, uid := range []string{"", ".", "..", "a/b", "../x"} {
		if _, err := n.Attach(t.Context(), Pod{UID: uid}); err == nil {
			t.Errorf("UID %q was taken", uid)
		}
	}
}

func TestConcurrentAttach(t *testing.T) {
	n := setup(t, t.TempDir())
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[netip.Addr]string{}
	for i := range 24 {
		wg.Go(func() {
			uid := fmt.Sprint("uid-", i%20) // some twice at a time
			a, err := n.Attach(context.Background(), Pod{UID: uid})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if other := seen[a.IPs[0]]; other != "" && other != uid {
				t.Errorf("%s has the address of %s", uid, other)
			}
			seen[a.IPs[0]] = uid
		})
	}
	wg.Wait()
	if len(seen) != 20 {
		t.Errorf("%d addresses, want 20", len(seen))
	}
}

// The loopback services of the node are out of reach of pods, though
// route_localnet is on; without the rules the same attempt succeeds.
func TestPodsCannotReachHostLoopback(t *testing.T) {
	n := setup(t, t.TempDir())
	a := attach(t, n, "uid-a")
	lo, _ := n.host.LinkByName("lo")
	if err := n.host.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	serve(t, "", "127.0.0.1:9999")
	err := in(t, a.NetNS, func() error { // a pod with all rights over its own namespace
		h, err := netlink.NewHandle()
		if err != nil {
			return err
		}
		defer h.Close()
		eth0, err := h.LinkByName("eth0")
		if err != nil {
			return err
		}
		if err := writeSysctls([][2]string{{"ipv4/conf/eth0/route_localnet", "1"}}); err != nil {
			return err
		}
		plo, _ := h.LinkByName("lo")
		own, _ := netlink.ParseAddr("127.0.0.1/8")
		if err := h.AddrDel(plo, own); err != nil {
			return err
		}
		_, loop, _ := net.ParseCIDR("127.0.0.0/8")
		return h.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Dst: loop, Gw: a.Gateway.AsSlice(),
			Src: a.IPs[0].AsSlice(), Flags: int(netlink.FLAG_ONLINK)})
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := call(t, a.NetNS, "127.0.0.1:9999"); err == nil {
		t.Fatalf("pod reached the node's loopback as %s", got)
	}
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	c.DelTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName})
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, a.NetNS, "127.0.0.1:9999"); err != nil {
		t.Fatalf("the attempt proves nothing, it fails without rules too: %v", err)
	}
}

// Traffic that leaves the cluster has the node's address.
func TestMasquerade(t *testing.T) {
	dir := t.TempDir()
	n := setup(t, dir)
	a := attach(t, n, "uid-a")
	outside := filepath.Join(dir, "outside")
	err := makeNS(outside, func(ns netlink.NsFd) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "uplink"
		if err := n.host.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: ns}); err != nil {
			return err
		}
		up, err := n.host.LinkByName("uplink")
		if err != nil {
			return err
		}
		addr, _ := netlink.ParseAddr("192.0.2.1/24")
		if err := n.host.AddrAdd(up, addr); err != nil {
			return err
		}
		if err := n.host.LinkSetUp(up); err != nil {
			return err
		}
		return fillPod(netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.1"))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeNS(outside) })
	serve(t, outside, ":80")
	if got, err := call(t, a.NetNS, "192.0.2.2:80"); err != nil || got != "192.0.2.1" {
		t.Fatalf("outside saw %q, %v; want the node's address", got, err)
	}
}

func BenchmarkAttachDetach(b *testing.B) {
	n := setup(b, b.TempDir())
	var det time.Duration
	for i := 0; b.Loop(); i++ {
		uid := fmt.Sprint("uid-", i)
		attach(b, n, uid)
		t := time.Now()
		if err := n.Detach(b.Context(), uid); err != nil {
			b.Fatal(err)
		}
		det += time.Since(t)
	}
	b.ReportMetric(float64(det.Microseconds())/float64(b.N), "us-detach/op")
}
