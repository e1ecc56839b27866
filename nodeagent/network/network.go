// Package network gives pods of one node their network: a network namespace
// each, joined by a veth pair to the bridge writ0, with an address from the
// node's pod range. It speaks netlink itself; no CNI plugin and no program is
// run.
//
//	 pod netns          node
//	+-----------+      +---------------------------------------+
//	| eth0 .2/32|------| veth -+                               |
//	+-----------+      |       +- writ0 .1/24, 10.96.0.10/32   |
//	+-----------+      |       |                               |
//	| eth0 .3/32|------| veth -+   masquerade -> the world     |
//	+-----------+      +---------------------------------------+
//
// A pod's address is a /32 and everything goes to the gateway, also what is for
// the pod beside it: the node's packet rules then see both directions of every
// connection, which a ClusterIP needs, whether br_netfilter is loaded or not.
//
// It owns the bridge, the namespaces below NetNSDir, the leases below StateDir
// and the nftables table "writ-network". It watches nothing; Routes, beside it,
// follows Node objects to reach the pods of other nodes: directly where they
// share a link, through a VXLAN where a router is between.
//
// It promises: Setup, Attach and Detach can be called again at any time and
// after a crash at any point, and an address belongs to one pod until Detach.
package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"github.com/vishvananda/netlink"
)

// Config is everything the network needs from outside.
type Config struct {
	// PodCIDR is the range of this node's pods: 10.244.0.0/24. Its first
	// address is the bridge's.
	PodCIDR netip.Prefix
	// ClusterCIDR is the range of all pods, ServiceCIDR that of ClusterIPs.
	// Traffic to anywhere else leaves with the node's address.
	ClusterCIDR netip.Prefix
	ServiceCIDR netip.Prefix
	// StateDir keeps the leases. It must survive restarts of the process, and
	// need not survive those of the machine.
	StateDir string
	// NetNSDir is where namespaces are mounted. Default /run/writ/netns.
	NetNSDir string
	// Bridge is the name of the bridge. Default writ0.
	Bridge string
	// DNSAddr is an extra address of the bridge, where the node's DNS listens.
	DNSAddr netip.Addr
	// MTU of the bridge and the pods. Default: that of the default route's
	// interface, or 1500.
	MTU int
	Log *slog.Logger
}

// Pod is what the network has to know of a pod.
type Pod struct {
	UID, Namespace, Name string
	// HostNetwork pods share the node's network: nothing is made for them.
	HostNetwork bool
	// Metadata says whether the pod may reach link-local addresses off the node;
	// nil: as before, and at first not.
	Metadata *bool
}

// Attachment is a pod's place in the network.
type Attachment struct {
	// NetNS is the path of the network namespace; empty with HostNetwork.
	NetNS   string
	IPs     []netip.Addr
	Gateway netip.Addr
	MTU     int
}

// Network attaches pods. Its methods may be called concurrently, after Setup
// has returned.
type Network struct {
	cfg    Config
	leases *leases
	pods   keyedMutex
	host   *netlink.Handle
	bridge netlink.Link
	mtu    int
}

// New returns a network; it changes nothing before Setup.
func New(cfg Config) *Network {
	if cfg.NetNSDir == "" {
		cfg.NetNSDir = "/run/writ/netns"
	}
	if cfg.Bridge == "" {
		cfg.Bridge = "writ0"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Network{cfg: cfg, pods: keyedMutex{locks: map[string]*keyedLock{}}}
}

// Setup makes the bridge, its addresses, the kernel settings and the
// packet rules, and takes back the leases of an earlier process. It is not safe
// to call it while pods are being attached.
func (n *Network) Setup(ctx context.Context) error {
	if !n.cfg.PodCIDR.Addr().Is4() || n.cfg.PodCIDR.Bits() > 29 {
		return fmt.Errorf("set up pod network: pod CIDR %s must be an IPv4 range of /29 or larger", n.cfg.PodCIDR)
	}
	if n.host == nil {
		h, err := netlink.NewHandle()
		if err != nil {
			return fmt.Errorf("open netlink: %w (this needs root)", err)
		}
		n.host = h
	}
	if err := shareMount(n.cfg.NetNSDir); err != nil {
		return fmt.Errorf("share %s: %w", n.cfg.NetNSDir, err)
	}
	if err := n.setupBridge(); err != nil {
		return fmt.Errorf("set up bridge %s: %w", n.cfg.Bridge, err)
	}
	if err := setupSysctls(n.cfg.Bridge); err != nil {
		return fmt.Errorf("set kernel parameters: %w", err)
	}
	ls, err := openLeases(n.cfg.StateDir, n.cfg.PodCIDR, n.cfg.Log)
	if err != nil {
		return fmt.Errorf("open leases: %w", err)
	}
	n.leases = ls
	if err := setupRules(n.cfg, ls.metadata()); err != nil {
		return fmt.Errorf("set packet rules: %w", err)
	}
	return n.adopt()
}

// adopt writes leases for namespaces that have none: those of a node whose
// state directory was lost while its pods ran on.
func (n *Network) adopt() error {
	files, err := os.ReadDir(n.cfg.NetNSDir)
	if err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	for _, f := range files {
		uid := f.Name()
		if _, ok := n.leases.get(uid); ok {
			continue
		}
		addr, err := podAddr(n.nsPath(uid))
		if err != nil || !n.cfg.PodCIDR.Contains(addr) {
			// Half made when the last process died, or of another range: no
			// pod can be using it.
			if err := removeNS(n.nsPath(uid)); err != nil {
				n.cfg.Log.Warn("remove namespace", "uid", uid, "err", err)
			}
			continue
		}
		if err := n.leases.adopt(lease{UID: uid, IP: addr}); err != nil {
			n.cfg.Log.Warn("adopt namespace", "uid", uid, "err", err) // its pod is attached anew
			continue
		}
		n.cfg.Log.Info("adopted pod network", "uid", uid, "ip", addr)
	}
	return nil
}

// Attach gives a pod its namespace and address, the same ones every time until
// Detach.
func (n *Network) Attach(ctx context.Context, pod Pod) (Attachment, error) {
	if pod.HostNetwork {
		return Attachment{}, nil
	}
	if !validUID(pod.UID) {
		return Attachment{}, fmt.Errorf("attach pod %s/%s: bad UID %q", pod.Namespace, pod.Name, pod.UID)
	}
	defer n.pods.lock(pod.UID)()
	l, err := n.leases.take(pod)
	if err != nil {
		return Attachment{}, fmt.Errorf("attach pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if pod.Metadata != nil && l.Metadata != *pod.Metadata {
		if err := n.allowMetadata(l, *pod.Metadata); err != nil {
			return Attachment{}, fmt.Errorf("attach pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	if addr, err := podAddr(n.nsPath(pod.UID)); err == nil && addr == l.IP {
		return n.attachment(l), nil
	}
	if err := n.connect(l); err != nil {
		return Attachment{}, fmt.Errorf("attach pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return n.attachment(l), nil
}

// connect makes the namespace and veth pair of a lease, over whatever an
// attempt that died halfway has left.
func (n *Network) connect(l lease) error {
	path := n.nsPath(l.UID)
	if err := removeNS(path); err != nil {
		return fmt.Errorf("remove old namespace: %w", err)
	}
	if err := n.removeVeth(l.UID); err != nil {
		return fmt.Errorf("remove old veth: %w", err)
	}
	return makeNS(path, func(ns netlink.NsFd) error { return n.plug(l, ns) })
}

// Detach removes what Attach made and frees the address. A pod that is not
// attached is no error.
func (n *Network) Detach(ctx context.Context, uid string) error {
	if !validUID(uid) {
		return fmt.Errorf("detach pod: bad UID %q", uid)
	}
	defer n.pods.lock(uid)()
	l, ok := n.leases.get(uid)
	if !ok {
		return nil
	}
	if l.Metadata { // the next pod of its address may not
		if err := n.allowMetadata(l, false); err != nil {
			return fmt.Errorf("detach pod %s: %w", uid, err)
		}
	}
	if err := removeNS(n.nsPath(uid)); err != nil {
		return fmt.Errorf("detach pod %s: remove namespace: %w", uid, err)
	}
	// The veth pair goes with the namespace. To delete it here would wait
	// 30 ms for the kernel; until it is gone the address rests in the circle.
	if err := n.leases.release(uid); err != nil {
		return fmt.Errorf("detach pod %s: %w", uid, err)
	}
	return nil
}

// Attached returns every attachment by the UID of its pod, also those made by
// earlier processes. After a restart of the machine the addresses are still
// held, but the namespaces are gone until the next Attach.
func (n *Network) Attached(ctx context.Context) (map[string]Attachment, error) {
	out := map[string]Attachment{}
	for _, l := range n.leases.all() {
		a := n.attachment(l)
		if _, err := os.Stat(a.NetNS); errors.Is(err, fs.ErrNotExist) {
			a.NetNS = ""
		}
		out[l.UID] = a
	}
	return out, nil
}

func (n *Network) attachment(l lease) Attachment {
	return Attachment{NetNS: n.nsPath(l.UID), IPs: []netip.Addr{l.IP}, Gateway: gateway(n.cfg.PodCIDR), MTU: n.mtu}
}

func (n *Network) nsPath(uid string) string { return filepath.Join(n.cfg.NetNSDir, uid) }

// gateway is the first address of a pod range, held by the bridge.
func gateway(podCIDR netip.Prefix) netip.Addr { return podCIDR.Masked().Addr().Next() }

// validUID keeps names out that would be no file name.
func validUID(uid string) bool {
	return uid != "" && uid != "." && uid != ".." && filepath.Base(uid) == uid && len(uid) < 200
}

// keyedMutex serialises work on one pod without holding up the others.
type keyedMutex struct {
	mu    sync.Mutex
	locks map[string]*keyedLock
}

type keyedLock struct {
	sync.Mutex
	users int
}

// lock waits for the key and returns what unlocks it.
func (k *keyedMutex) lock(key string) func() {
	k.mu.Lock()
	l := k.locks[key]
	if l == nil {
		l = &keyedLock{}
		k.locks[key] = l
	}
	l.users++
	k.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		k.mu.Lock()
		if l.users--; l.users == 0 {
			delete(k.locks, key)
		}
		k.mu.Unlock()
	}
}
