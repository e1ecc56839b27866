// Package dns answers the names of Services and pods, on every node from the
// node's own watch: a pod's question never leaves its machine, and an answer
// needs neither a server nor a cache in between.
//
//	web.shop.svc.cluster.local              A, AAAA: the ClusterIP, or of a headless Service its endpoints
//	db-0.db.shop.svc.cluster.local          A, AAAA: one endpoint of a headless Service, by hostname
//	_http._tcp.web.shop.svc.cluster.local   SRV
//	10-244-0-7.shop.pod.cluster.local       A: the address in the name
//	7.0.244.10.in-addr.arpa                 PTR
//
// Everything follows the DNS specification of Kubernetes, version 1.1.0. Names
// outside of the cluster's domain are asked of the upstream resolvers.
//
// It watches Services and EndpointSlices, and owns its tables and the cache of
// foreign answers. It promises: what it says is complete as of a moment not
// long ago. Until the tables are filled it does not answer at all, so that
// nobody is told that a name does not exist because of a restart.
package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Config is everything the server needs from outside.
type Config struct {
	Cache client.Cache
	// Addr are the addresses to listen on, by UDP and TCP. They need not exist
	// yet.
	Addr []netip.AddrPort
	// Domain of the cluster. Default "cluster.local".
	Domain string
	// Upstreams answer all other names. Nil means those of /etc/resolv.conf;
	// empty but not nil means none.
	Upstreams []netip.AddrPort
	Log       *slog.Logger
}

// Server answers DNS queries.
type Server struct {
	cfg     Config
	tables  *tables
	forward *forwarder
	ready   chan struct{}
}

// New returns a server; it listens only in Run.
func New(cfg Config) *Server {
	if cfg.Domain == "" {
		cfg.Domain = "cluster.local"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		cfg:     cfg,
		tables:  newTables(cfg.Domain),
		forward: newForwarder(cfg.Upstreams, cfg.Addr),
		ready:   make(chan struct{}),
	}
}

// Ready is closed when the server answers from complete tables.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run serves until ctx is done. An address that is taken is an error. It serves
// names of the world at once, also while the API server is away; those of the
// cluster are a failure, to be asked again, until all are known.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	servers, err := s.listen(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		err := s.follow(ctx)
		if err == nil {
			close(s.ready)
		} else if ctx.Err() != nil {
			return nil
		}
		return err
	})
	for _, srv := range servers {
		started := make(chan struct{})
		srv.NotifyStartedFunc = func() { close(started) }
		g.Go(srv.ActivateAndServe)
		g.Go(func() error {
			<-ctx.Done()
			select {
			case <-started: // stopping one that has not started yet would be lost
			case <-time.After(time.Second):
			}
			return shutdown(srv)
		})
	}
	return g.Wait()
}

// follow fills the tables. It returns when they are complete; they are kept so
// until ctx ends.
func (s *Server) follow(ctx context.Context) error {
	// Slices first: a headless Service is never seen without its endpoints.
	if err := s.cfg.Cache.Subscribe(ctx, schema.ResourceFor[*discoveryv1.EndpointSlice](), s.tables.onSlice); err != nil {
		return fmt.Errorf("watch endpoint slices: %w", err)
	}
	if err := s.cfg.Cache.Subscribe(ctx, schema.ResourceFor[*corev1.Service](), s.tables.onService); err != nil {
		return fmt.Errorf("watch services: %w", err)
	}
	return nil
}

func (s *Server) complete() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

func shutdown(srv *dns.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := srv.ShutdownContext(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "not started") {
		return fmt.Errorf("stop DNS server: %w", err)
	}
	return nil
}

// listen opens the sockets, all or none.
func (s *Server) listen(ctx context.Context) ([]*dns.Server, error) {
	// The bridge that has the address may come later than the server.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		ctrlErr := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1)
		})
		return errors.Join(ctrlErr, err)
	}}
	var out []*dns.Server
	fail := func(addr netip.AddrPort, err error) ([]*dns.Server, error) {
		for _, srv := range out {
			if srv.PacketConn != nil {
				_ = srv.PacketConn.Close()
			} else {
				_ = srv.Listener.Close()
			}
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("serve DNS on %s: the port is taken; stop the other DNS server or choose another address: %w", addr, err)
		}
		return nil, fmt.Errorf("serve DNS on %s: %w", addr, err)
	}
	for _, addr := range s.cfg.Addr {
		pc, err := lc.ListenPacket(ctx, "udp", addr.String())
		if err != nil {
			return fail(addr, err)
		}
		out = append(out, &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(s.serveUDP), UDPSize: 4096})
		l, err := lc.Listen(ctx, "tcp", addr.String())
		if err != nil {
			return fail(addr, err)
		}
		out = append(out, &dns.Server{Listener: l, Handler: dns.HandlerFunc(s.serveTCP)})
	}
	return out, nil
}

func (s *Server) serveUDP(w dns.ResponseWriter, q *dns.Msg) { s.serve(w, q, "udp") }
func (s *Server) serveTCP(w dns.ResponseWriter, q *dns.Msg) { s.serve(w, q, "tcp") }

// serve answers one message.
func (s *Server) serve(w dns.ResponseWriter, q *dns.Msg, network string) {
	m := s.reply(q, network)
	size := dns.MaxMsgSize
	if network == "udp" {
		size = dns.MinMsgSize
		if opt := q.IsEdns0(); opt != nil {
			size = max(size, int(min(opt.UDPSize(), maxUDP)))
		}
	}
	m.Truncate(size)
	// A client that is gone does not matter, and there is nobody to tell.
	_ = w.WriteMsg(m)
}

// maxUDP is the largest datagram we send: what passes every link unfragmented.
const maxUDP = 1232

// reply makes the answer to a message.
func (s *Server) reply(q *dns.Msg, network string) *dns.Msg {
	m := new(dns.Msg)
	m.SetReply(q)
	m.RecursionAvailable = true
	if opt := q.IsEdns0(); opt != nil {
		m.SetEdns0(maxUDP, opt.Do())
		if opt.Version() != 0 {
			m.Rcode = dns.RcodeBadVers
			return m
		}
	}
	if q.Opcode != dns.OpcodeQuery || len(q.Question) != 1 {
		m.Rcode = dns.RcodeNotImplemented
		return m
	}
	if q.Question[0].Qclass != dns.ClassINET {
		m.Rcode = dns.RcodeRefused
		return m
	}
	a, ours := s.tables.answer(q.Question[0], int(q.Id))
	if !ours {
		s.forward.fill(m, q, network)
		return m
	}
	if !s.complete() {
		m.Rcode = dns.RcodeServerFailure // not "no such name", which clients would believe
		return m
	}
	m.Authoritative = true
	m.Rcode, m.Answer, m.Extra, m.Ns = a.rcode, a.answer, append(m.Extra, a.extra...), a.ns
	if a.follow != "" {
		s.chase(m, q, a.follow, network)
	}
	return m
}

// chase adds the records of an ExternalName's target, for clients that do not
// ask again themselves.
func (s *Server) chase(m, q *dns.Msg, target, network string) {
	next := q.Copy()
	next.Question[0].Name = target
	for range 8 { // a chain of names, or a ring
		a, ours := s.tables.answer(next.Question[0], int(q.Id))
		if !ours {
			r := new(dns.Msg)
			r.SetReply(next)
			s.forward.fill(r, next, network)
			if r.Rcode == dns.RcodeSuccess {
				m.Answer = append(m.Answer, r.Answer...)
			}
			return
		}
		m.Answer = append(m.Answer, a.answer...)
		if a.follow == "" {
			return
		}
		next.Question[0].Name = a.follow
	}
}
