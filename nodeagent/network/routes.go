package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
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

// Routes keeps a route to the pods of every other node: over that node's
// address where both share a link (host-gw), through a VXLAN where a router is
// between them. It watches Nodes and the kernel's routes, and owns the routes
// of protocol 119 and the device writ-vxlan with its tables, which is there
// only while some node needs it.
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
	wake := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if err := r.cfg.Cache.Subscribe(ctx, schema.ResourceFor[*corev1.Node](), func(client.Event) { wake() }); err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return watchRoutes(ctx, wake) })
	g.Go(func() error {
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
	})
	return g.Wait()
}

// watchRoutes follows the IPv4 routes of others: a link that comes or goes
// decides how nodes are reached.
func watchRoutes(ctx context.Context, wake func()) error {
	updates := make(chan netlink.RouteUpdate, 64)
	if err := netlink.RouteSubscribe(updates, ctx.Done()); err != nil {
		return fmt.Errorf("watch the kernel's routes: %w", err)
	}
	for u := range updates {
		if u.Family == unix.AF_INET && u.Protocol != routeProtocol {
			wake()
		}
	}
	if ctx.Err() == nil {
		return errors.New("the kernel's messages about routes have ended")
	}
	return nil
}

func (r *Routes) reconcile(h *netlink.Handle) error {
	// Read.
	vx, err := openOverlay(h)
	if err != nil {
		return err
	}
	live, err := liveRoutes(h, vx.index())
	if err != nil {
		return err
	}
	tunnels, err := vx.tunnels()
	if err != nil {
		return err
	}
	peers, self := peersOf(client.CachedList[*corev1.Node](r.cfg.Cache, ""), r.cfg.NodeName)
	reaches, errs := ways(h, peers)
	// Decide.
	want, ends := desired(peers, self, reaches, live)
	set, remove := planRoutes(want, live)
	// Act.
	errs = append(errs, r.tunnel(&vx, self, ends, tunnels))
	for _, rt := range set {
		if err := h.RouteReplace(rt.kernel(vx.index())); err != nil {
			errs = append(errs, fmt.Errorf("set route to %s over %s: %w", rt.dst, rt.gw, err))
			continue
		}
		r.cfg.Log.Info("set route", "pods", rt.dst, "via", rt.gw, "overlay", rt.overlay)
	}
	for _, rt := range remove {
		if err := h.RouteDel(rt.kernel(vx.index())); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("remove route to %s: %w", rt.dst, err))
			continue
		}
		r.cfg.Log.Info("removed route", "pods", rt.dst)
	}
	return errors.Join(append(errs, r.untunnel(&vx, ends, tunnels))...)
}

// tunnel makes the overlay what routes are about to need.
func (r *Routes) tunnel(vx *overlay, self peer, want, live map[netip.Addr]tunnel) error {
	if len(want) == 0 {
		return nil
	}
	had := vx.index()
	if err := vx.setup(self); err != nil {
		return err
	}
	if vx.index() != had {
		r.cfg.Log.Info("made the overlay: some nodes are behind a router", "device", overlayName, "port", overlayPort)
		live = nil
	}
	var errs []error
	for _, t := range sorted(want) {
		if live[t.vtep] != t {
			errs = append(errs, vx.set(t))
		}
	}
	return errors.Join(errs...)
}

// untunnel takes away what no route needs any more.
func (r *Routes) untunnel(vx *overlay, want, live map[netip.Addr]tunnel) error {
	if len(want) == 0 {
		return vx.remove()
	}
	var errs []error
	for _, t := range sorted(live) {
		if _, ok := want[t.vtep]; !ok {
			errs = append(errs, vx.unset(t))
		}
	}
	return errors.Join(errs...)
}

// liveRoutes are the routes of protocol 119.
func liveRoutes(h *netlink.Handle, overlay int) (map[netip.Prefix]route, error) {
	routes, err := h.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	live := map[netip.Prefix]route{}
	for _, rt := range routes {
		if rt.Dst == nil {
			continue
		}
		ip, _ := netip.AddrFromSlice(rt.Dst.IP.To4())
		bits, _ := rt.Dst.Mask.Size()
		gw, _ := netip.AddrFromSlice(rt.Gw.To4())
		dst := netip.PrefixFrom(ip, bits)
		live[dst] = route{dst: dst, gw: gw, overlay: rt.LinkIndex == overlay}
	}
	return live, nil
}

// ways asks the kernel how it reaches each node.
func ways(h *netlink.Handle, peers []peer) (map[netip.Addr]reach, []error) {
	out := map[netip.Addr]reach{}
	var errs []error
	for _, p := range peers {
		if _, ok := out[p.addr]; ok {
			continue
		}
		found, err := h.RouteGet(p.addr.AsSlice())
		switch {
		case err != nil || len(found) == 0:
			out[p.addr] = unknown
			errs = append(errs, fmt.Errorf("find the way to node %s: %w", p.addr, err))
		case found[0].Gw != nil:
			out[p.addr] = routed
		default:
			out[p.addr] = onLink
		}
	}
	return out, errs
}

func (r route) kernel(overlay int) *netlink.Route {
	k := &netlink.Route{
		Dst:      &net.IPNet{IP: r.dst.Addr().AsSlice(), Mask: net.CIDRMask(r.dst.Bits(), 32)},
		Gw:       r.gw.AsSlice(),
		Protocol: routeProtocol,
	}
	if r.overlay {
		k.LinkIndex, k.Flags = overlay, int(netlink.FLAG_ONLINK)
	}
	return k
}
