package network

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// machine is a network namespace that plays a node or a router.
type machine struct {
	testing.TB
	ns netns.NsHandle
	h  *netlink.Handle
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{TB: t}
	err := onOwnThread(func() (err error) { m.ns, err = netns.New(); return err })
	if err != nil {
		t.Fatal(err)
	}
	if m.h, err = netlink.NewHandleAt(m.ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.h.Close(); m.ns.Close() })
	m.do(func() error { return writeSysctls([][2]string{{"ipv4/ip_forward", "1"}}) })
	lo, err := m.h.LinkByName("lo")
	if err == nil {
		err = m.h.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// do calls fn on a thread that is in the machine.
func (m *machine) do(fn func() error) {
	m.Helper()
	if err := onOwnThread(func() error {
		if err := netns.Set(m.ns); err != nil {
			return err
		}
		return fn()
	}); err != nil {
		m.Fatal(err)
	}
}

func (m *machine) link(l netlink.Link, addr string) netlink.Link {
	m.Helper()
	if _, veth := l.(*netlink.Veth); !veth {
		if err := m.h.LinkAdd(l); err != nil {
			m.Fatal(err)
		}
	}
	got, err := m.h.LinkByName(l.Attrs().Name)
	if err == nil {
		err = m.h.LinkSetUp(got)
	}
	if err == nil && addr != "" {
		var a *netlink.Addr
		if a, err = netlink.ParseAddr(addr); err == nil {
			err = m.h.AddrAdd(got, a)
		}
	}
	if err != nil {
		m.Fatal(err)
	}
	return got
}

// connect puts a node on a segment of the router, which is a bridge there.
func (m *machine) connect(router *machine, segment, port, addr, gateway string) {
	m.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = port
	if err := router.h.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "up0", PeerNamespace: netlink.NsFd(int(m.ns))}); err != nil {
		m.Fatal(err)
	}
	end := router.link(&netlink.Veth{LinkAttrs: attrs}, "")
	bridge, err := router.h.LinkByName(segment)
	if err == nil {
		err = router.h.LinkSetMaster(end, bridge)
	}
	if err != nil {
		m.Fatal(err)
	}
	attrs.Name = "up0"
	m.link(&netlink.Veth{LinkAttrs: attrs}, addr)
	if err := m.h.RouteReplace(&netlink.Route{Gw: net.ParseIP(gateway)}); err != nil {
		m.Fatal(err)
	}
}

// asks returns what a server at addr answers, asked from a local address.
func (m *machine) asks(from, addr string) (got string, err error) {
	m.Helper()
	err = onOwnThread(func() error {
		if err := netns.Set(m.ns); err != nil {
			return err
		}
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
		c, err := d.Dial("tcp4", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		b, err := io.ReadAll(c)
		got = string(b)
		return err
	})
	return got, err
}

// TestOverlay: three nodes on two segments with a router between them. Pods
// reach each other over the link where there is one, and through the tunnel
// where there is none, and the tunnel goes with the last node that needs it.
func TestOverlay(t *testing.T) {
	router := newMachine(t)
	for name, addr := range map[string]string{"seg1": "198.51.100.254/24", "seg2": "203.0.113.254/24"} {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		router.link(&netlink.Bridge{LinkAttrs: attrs}, addr)
	}
	api := client.NewFake(node("a", "10.244.1.0/24", "198.51.100.1"), node("b", "10.244.2.0/24", "198.51.100.2"), node("c", "10.244.3.0/24", "203.0.113.3"))
	nodes := map[string]*machine{}
	for i, name := range []string{"a", "b", "c"} {
		m := newMachine(t)
		segment, at, gw := "seg1", fmt.Sprintf("198.51.100.%d/24", i+1), "198.51.100.254"
		if name == "c" {
			segment, at, gw = "seg2", "203.0.113.3/24", "203.0.113.254"
		}
		m.connect(router, segment, "p"+name, at, gw)
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "pods"
		m.link(&netlink.Bridge{LinkAttrs: attrs}, fmt.Sprintf("10.244.%d.2/24", i+1))
		nodes[name] = m
	}
	reconcile := func() {
		t.Helper()
		for name, m := range nodes {
			r := NewRoutes(RoutesConfig{Cache: api.Cache(), NodeName: name})
			for range 2 {
				if err := r.reconcile(m.h); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
	}
	reconcile()
	long := strings.Repeat("x", 1<<20) // more than a packet of any size
	for _, m := range nodes {
		m.answer(":8080", long)
	}
	reaches := func(from, to int) {
		t.Helper()
		name := string(rune('a' + from - 1))
		got, err := nodes[name].asks(fmt.Sprintf("10.244.%d.2", from), fmt.Sprintf("10.244.%d.2:8080", to))
		if err != nil || got != long {
			t.Errorf("pod on %s to pod of node %d: %d bytes, %v", name, to, len(got), err)
		}
	}
	over := func(name string, want int) {
		t.Helper()
		vx, err := openOverlay(nodes[name].h)
		if err != nil {
			t.Fatal(err)
		}
		tunnels, err := vx.tunnels()
		if err != nil || len(tunnels) != want || (vx.link != nil) != (want > 0) {
			t.Errorf("%s has tunnels %v, %v; want %d", name, tunnels, err, want)
		}
		if vx.link != nil && vx.link.Attrs().MTU != 1450 {
			t.Errorf("MTU of the overlay on %s: %d", name, vx.link.Attrs().MTU)
		}
	}
	for from := 1; from <= 3; from++ {
		for to := 1; to <= 3; to++ {
			reaches(from, to)
		}
	}
	over("a", 1)
	over("b", 1)
	over("c", 2)
	live, err := liveRoutes(nodes["a"].h, -1)
	if r := live[netip.MustParsePrefix("10.244.2.0/24")]; err != nil || r.gw != netip.MustParseAddr("198.51.100.2") {
		t.Errorf("a to b goes %v, %v: they share a link", r, err)
	}

	// The node behind the router goes: so does the overlay.
	if err := client.Delete[*corev1.Node](t.Context(), api, schema.Key{Name: "c"}, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	delete(nodes, "c")
	reconcile()
	over("a", 0)
	reaches(1, 2)
}

// answer serves text to everyone who connects.
func (m *machine) answer(addr, text string) {
	m.Helper()
	var l net.Listener
	m.do(func() (err error) { l, err = net.Listen("tcp4", addr); return err })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, text) //nolint:errcheck // the other side counts what came
			c.Close()
		}
	}()
	m.Cleanup(func() { l.Close(); <-done })
}
