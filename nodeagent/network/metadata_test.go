package network

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"
)

// cloud puts a machine with the address of a metadata service beside the node,
// and returns its network namespace.
func cloud(t *testing.T, n *Network, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "cloud")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := shareMount(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = removeNS(path); netlinkUnmount(dir) })
	must(makeNS(path, func(ns netlink.NsFd) error {
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "uplink0"}, PeerName: "cloud0", PeerNamespace: ns}
		return n.host.LinkAdd(pair)
	}))
	up := func(name, addr string) error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr(addr)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(l, a); err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	}
	must(up("uplink0", "169.254.1.1/16"))
	t.Cleanup(func() {
		if l, err := netlink.LinkByName("uplink0"); err == nil {
			_ = netlink.LinkDel(l)
		}
	})
	must(in(t, path, func() error { return up("cloud0", "169.254.169.254/16") }))
	return path
}

// Pods do not reach the metadata service of a cloud, with real packets, unless
// they may; the node does, and so does what listens on a link-local address of
// the node answer to all.
func TestMetadataIsOutOfReach(t *testing.T) {
	dir := t.TempDir()
	n := setup(t, dir)
	ns := cloud(t, n, t.TempDir())
	serve(t, ns, "169.254.169.254:80")
	serve(t, "", "169.254.1.1:53")
	const metadata, local = "169.254.169.254:80", "169.254.1.1:53"
	plain := attach(t, n, "uid-plain")
	trusted := func(may *bool) Attachment {
		t.Helper()
		a, err := n.Attach(t.Context(), Pod{UID: "uid-trusted", Namespace: "cloud", Name: "agent", Metadata: may})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	reach := func(a Attachment, want bool) {
		t.Helper()
		if _, err := call(t, a.NetNS, metadata); (err == nil) != want {
			t.Errorf("reached: %v, want %v", err, want)
		}
	}
	if _, err := dial(metadata); err != nil {
		t.Fatalf("the attempt proves nothing, the node does not reach it either: %v", err)
	}
	reach(plain, false)
	if _, err := call(t, plain.NetNS, local); err != nil {
		t.Errorf("the node's own link-local address: %v", err)
	}
	a := trusted(new(true))
	reach(a, true)
	reach(plain, false)

	// The next agent knows.
	again := New(n.cfg)
	if err := again.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.host.Close)
	n.leases = again.leases
	reach(a, true)
	reach(plain, false)
	reach(trusted(nil), true) // nobody knows now: as before
	reach(trusted(new(false)), false)
	reach(trusted(nil), false)
	reach(trusted(new(true)), true)

	// The next pod of the address does not inherit it.
	if err := n.Detach(t.Context(), "uid-trusted"); err != nil {
		t.Fatal(err)
	}
	n.leases.mu.Lock()
	n.leases.last = a.IPs[0].Prev()
	n.leases.mu.Unlock()
	heir := attach(t, n, "uid-heir")
	if heir.IPs[0] != a.IPs[0] {
		t.Fatalf("the heir has %s, not %s", heir.IPs[0], a.IPs[0])
	}
	reach(heir, false)

	// Connections from there, and their answers, pass.
	serve(t, plain.NetNS, ":8080")
	if err := in(t, ns, func() error {
		_, dst, _ := net.ParseCIDR(testCIDR.String())
		return netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.IPv4(169, 254, 1, 1)})
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, ns, plain.IPs[0].String()+":8080"); err != nil {
		t.Errorf("from a link-local address to a pod: %v", err)
	}
}
