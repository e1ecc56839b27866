package network

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// claim sends, from inside a pod, ARP answers that say that an address is at the
// pod's own hardware address, and a frame from the hardware address of another.
func claim(t *testing.T, ns string, ip netip.Addr, as net.HardwareAddr, to net.HardwareAddr, target netip.Addr) {
	t.Helper()
	err := in(t, ns, func() error {
		link, err := netlink.LinkByName(podLink)
		if err != nil {
			return err
		}
		if as == nil {
			as = link.Attrs().HardwareAddr
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		frame := append(append(append([]byte{}, to...), as...), 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2)
		frame = append(append(frame, as...), ip.AsSlice()...)
		frame = append(append(frame, to...), target.AsSlice()...)
		for range 3 {
			if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index, Halen: 6, Addr: [8]byte(append(append([]byte{}, to...), 0, 0))}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A pod that answers for the addresses of others, or sends from their hardware
// address, gets none of their packets.
func TestSpoofedAnswersAreNotBelieved(t *testing.T) {
	n := setup(t, t.TempDir())
	thief, victim, client := attach(t, n, "uid-thief"), attach(t, n, "uid-victim"), attach(t, n, "uid-client")
	serve(t, victim.NetNS, ":8080")
	serve(t, "", "10.96.0.10:53")
	ip, gw := victim.IPs[0], victim.Gateway
	check := func(what string) {
		t.Helper()
		for _, from := range []string{"", client.NetNS} {
			reach := func() error { _, err := dial(ip.String() + ":8080"); return err }
			if from != "" {
				dialled := reach
				reach = func() error { return in(t, from, dialled) }
			}
			if err := reach(); err != nil {
				t.Errorf("%s: the victim from %q: %v", what, from, err)
			}
		}
		if _, err := call(t, victim.NetNS, "10.96.0.10:53"); err != nil {
			t.Errorf("%s: the node from the victim: %v", what, err)
		}
	}
	check("before")
	node := n.bridge.Attrs().HardwareAddr
	claim(t, thief.NetNS, ip, nil, node, gw)
	check("the thief answers for the victim's address")
	claim(t, thief.NetNS, thief.IPs[0], podMAC(ip), node, gw)
	check("the thief sends from the victim's hardware address")
	claim(t, thief.NetNS, gw, nil, podMAC(ip), ip)
	check("the thief answers for the gateway")
}
