package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// routeProtocol marks the routes that Routes owns, in the kernel's table.
const routeProtocol = 119

// routeRetry is how long a route that the kernel refused waits: its node may be
// behind a link that is not up yet.
const routeRetry = 5 * time.Second

// RoutesConfig is everything Routes needs from outside.
type RoutesConfig struct {
	Cache    client.Cache
	NodeName string
	Log      *slog.Logger
}

// Routes keeps a route to the pods of every other node, over that node's
// address (host-gw). It watches Nodes and owns the kernel's routes of protocol
// 119; the nodes must share a link.
type Routes struct{ cfg RoutesConfig }

// NewRoutes returns Routes; it changes nothing before Run.
func NewRoutes(cfg RoutesConfig) *Routes {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Routes{cfg: cfg}
}

// Run keeps the routes in step with the Nodes until ctx is done. They stay when
// it returns: pods keep their connections while the process is away.
func (r *Routes) Run(ctx context.Context) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	changed := make(chan struct{}, 1)
	err = r.cfg.Cache.Subscribe(ctx, schema.ResourceFor[*corev1.Node](), func(client.Event) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	for {
		retry := (<-chan time.Time)(nil)
		if err := r.reconcile(h); err != nil {
			r.cfg.Log.Warn("routes to other nodes are incomplete", "err", err, "retry", routeRetry)
			retry = time.After(routeRetry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry:
		}
	}
}

func (r *Routes) reconcile(h *netlink.Handle) error {
	// Read.
	filter := &netlink.Route{Protocol: routeProtocol}
	routes, err := h.RouteListFiltered(netlink.FAMILY_V4, filter, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	live := map[netip.Prefix]netip.Addr{}
	for _, rt := range routes {
		if rt.Dst == nil {
			continue
		}
		ip, _ := netip.AddrFromSlice(rt.Dst.IP.To4())
		bits, _ := rt.Dst.Mask.Size()
		gw, _ := netip.AddrFromSlice(rt.Gw.To4())
		live[netip.PrefixFrom(ip, bits)] = gw
	}
	// Decide.
	set, remove := planRoutes(desiredRoutes(client.CachedList[*corev1.Node](r.cfg.Cache, ""), r.cfg.NodeName), live)
	// Act.
	var errs []error
	for _, rt := range set {
		if err := h.RouteReplace(rt.kernel()); err != nil {
			errs = append(errs, fmt.Errorf("set route to %s over %s: %w", rt.dst, rt.gw, err))
			continue
		}
		r.cfg.Log.Info("set route", "pods", rt.dst, "via", rt.gw)
	}
	for _, rt := range remove {
		if err := h.RouteDel(rt.kernel()); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("remove route to %s: %w", rt.dst, err))
			continue
		}
		r.cfg.Log.Info("removed route", "pods", rt.dst)
	}
	return errors.Join(errs...)
}

// route leads to the pods of one node.
type route struct {
	dst netip.Prefix
	gw  netip.Addr
}

func (r route) kernel() *netlink.Route {
	return &netlink.Route{
		Dst:      &net.IPNet{IP: r.dst.Addr().AsSlice(), Mask: net.CIDRMask(r.dst.Bits(), 32)},
		Gw:       r.gw.AsSlice(),
		Protocol: routeProtocol,
	}
}

// desiredRoutes reads the pod ranges and addresses of all nodes but this one.
func desiredRoutes(nodes []*corev1.Node, self string) map[netip.Prefix]netip.Addr {
	out := map[netip.Prefix]netip.Addr{}
	for _, n := range nodes {
		gw, ok := internalIP(n)
		if n.Name == self || !ok {
			continue
		}
		for _, s := range append([]string{n.Spec.PodCIDR}, n.Spec.PodCIDRs...) {
			if p, err := netip.ParsePrefix(s); err == nil && p.Addr().Is4() {
				out[p.Masked()] = gw
			}
		}
	}
	return out
}

func internalIP(n *corev1.Node) (netip.Addr, bool) {
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() && !ip.IsLoopback() {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

// planRoutes says what to change for live to become desired.
func planRoutes(desired, live map[netip.Prefix]netip.Addr) (set, remove []route) {
	for dst, gw := range desired {
		if live[dst] != gw {
			set = append(set, route{dst, gw})
		}
	}
	for dst, gw := range live {
		if _, ok := desired[dst]; !ok {
			remove = append(remove, route{dst, gw})
		}
	}
	byDst := func(a, b route) int { return a.dst.Addr().Compare(b.dst.Addr()) }
	slices.SortFunc(set, byDst)
	slices.SortFunc(remove, byDst)
	return set, remove
}
