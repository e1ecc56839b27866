package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server on a free port of the loopback interface.
func serve(t *testing.T, api *client.Fake, upstreams []netip.AddrPort) string {
	t.Helper()
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.LocalAddr().(*net.UDPAddr).AddrPort()
	l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	s := New(Config{Cache: api.Cache(), Addr: []netip.AddrPort{addr}, Upstreams: upstreams})
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-s.Ready():
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	return addr.String()
}

func ask(t *testing.T, network, addr, name string, qtype uint16, change ...func(*dns.Msg)) *dns.Msg {
	t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(name, qtype)
	for _, c := range change {
		c(q)
	}
	c := &dns.Client{Net: network, Timeout: 5 * time.Second, UDPSize: 4096}
	r, _, err := c.Exchange(q, addr)
	if err != nil {
		t.Fatalf("%s %s: %v", network, name, err)
	}
	r.Compress = true // as on the wire, for Len
	return r
}

func world() *client.Fake {
	api := client.NewFake()
	api.Put(newService("web", "10.96.0.80"))
	api.Put(newService("db", "None"))
	slice := newSlice("db")
	for i := range 100 {
		slice.Endpoints = append(slice.Endpoints, ep(fmt.Sprint("10.244.1.", i), "", true))
	}
	api.Put(slice)
	return api
}

func TestServe(t *testing.T) {
	api := world()
	addr := serve(t, api, []netip.AddrPort{})
	for _, network := range []string{"udp", "tcp"} {
		r := ask(t, network, addr, "web.shop.svc.cluster.local.", dns.TypeA)
		if len(r.Answer) != 1 || r.Answer[0].(*dns.A).A.String() != "10.96.0.80" || !r.Authoritative {
			t.Errorf("%s: %v", network, r)
		}
	}
	// A change is there with the next question.
	api.Put(newService("late", "10.96.0.90"))
	if r := ask(t, "udp", addr, "late.shop.svc.cluster.local.", dns.TypeA); len(r.Answer) != 1 {
		t.Errorf("new service: %v", r)
	}
	if r := ask(t, "udp", addr, "example.com.", dns.TypeA); r.Rcode != dns.RcodeServerFailure {
		t.Errorf("without upstreams: %v, want SERVFAIL", dns.RcodeToString[r.Rcode])
	}
	if r := ask(t, "udp", addr, "version.bind.", dns.TypeTXT, func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }); r.Rcode != dns.RcodeRefused {
		t.Errorf("other class: %v", dns.RcodeToString[r.Rcode])
	}
}

func TestLargeAnswers(t *testing.T) {
	addr := serve(t, world(), nil)
	name := "db.shop.svc.cluster.local."
	if r := ask(t, "udp", addr, name, dns.TypeA); !r.Truncated || r.Len() > 512 {
		t.Errorf("plain UDP: %d bytes, truncated %v", r.Len(), r.Truncated)
	}
	edns := func(m *dns.Msg) { m.SetEdns0(4096, false) }
	if r := ask(t, "udp", addr, name, dns.TypeA, edns); !r.Truncated || r.Len() > maxUDP || r.IsEdns0() == nil {
		t.Errorf("EDNS: %d bytes, truncated %v", r.Len(), r.Truncated)
	}
	if r := ask(t, "tcp", addr, name, dns.TypeA); r.Truncated || len(r.Answer) != 100 {
		t.Errorf("TCP: %d answers, truncated %v", len(r.Answer), r.Truncated)
	}
}

// upstream is a resolver that answers every A question and counts.
func upstream(t *testing.T, ttl uint32, count *atomic.Int32) netip.AddrPort {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	srv := &dns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		count.Add(1)
		m := new(dns.Msg)
		m.SetReply(q)
		if strings.HasPrefix(q.Question[0].Name, "missing.") {
			m.Rcode = dns.RcodeNameError
		} else {
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: ttl}, A: net.IPv4(192, 0, 2, 1)}}
		}
		w.WriteMsg(m)
	})}
	done := make(chan error, 1)
	go func() { done <- srv.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { srv.Shutdown(); <-done })
	return pc.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestForwardAndCache(t *testing.T) {
	var n atomic.Int32
	up := upstream(t, 60, &n)
	dead := netip.MustParseAddrPort("127.0.0.1:1") // refuses at once
	addr := serve(t, world(), []netip.AddrPort{dead, up})
	for range 3 {
		r := ask(t, "udp", addr, "www.example.com.", dns.TypeA)
		if len(r.Answer) != 1 || r.Authoritative || r.Answer[0].(*dns.A).A.String() != "192.0.2.1" {
			t.Fatalf("%v", r)
		}
	}
	if n.Load() != 1 {
		t.Errorf("upstream was asked %d times, want 1", n.Load())
	}
	if r := ask(t, "udp", addr, "missing.example.com.", dns.TypeA); r.Rcode != dns.RcodeNameError {
		t.Errorf("missing name: %v", r)
	}
}

func TestExternalNames(t *testing.T) {
	var n atomic.Int32
	api := world()
	tab := shop() // for its services
	for _, svc := range tab.specs {
		api.Put(svc)
	}
	addr := serve(t, api, []netip.AddrPort{upstream(t, 60, &n)})
	for name, want := range map[string]string{"ext": "192.0.2.1", "alias": "10.96.0.80"} {
		r := ask(t, "udp", addr, name+".shop.svc.cluster.local.", dns.TypeA)
		if len(r.Answer) != 2 || r.Answer[1].(*dns.A).A.String() != want {
			t.Errorf("%s: %v", name, r.Answer)
		}
	}
}

func TestPortTaken(t *testing.T) {
	addr := netip.MustParseAddrPort(serve(t, world(), nil))
	err := New(Config{Cache: world().Cache(), Addr: []netip.AddrPort{addr}}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the port is taken") {
		t.Errorf("got %v", err)
	}
}

func TestKeptAnswersAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newForwarder(nil, nil)
		m := new(dns.Msg)
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "a.", Rrtype: dns.TypeA, Ttl: 20}, A: net.IPv4(1, 2, 3, 4)}}
		key := question{name: "a.", qtype: dns.TypeA}
		f.remember(key, m, time.Now())
		time.Sleep(15 * time.Second)
		if r := f.recall(key, time.Now()); r == nil || r.Answer[0].Header().Ttl != 5 {
			t.Errorf("after 15 s: %v, want 5 s left", r)
		}
		time.Sleep(5 * time.Second)
		if r := f.recall(key, time.Now()); r != nil {
			t.Errorf("after 20 s: %v, want nothing", r)
		}
		for i := range maxAnswers * 2 {
			f.remember(question{name: fmt.Sprint(i)}, m, time.Now())
		}
		if len(f.answers) > maxAnswers {
			t.Errorf("%d answers kept", len(f.answers))
		}
	})
}

func TestResolvConf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	text := "# nameserver 1.1.1.1\nsearch x\nnameserver 10.96.0.10\nnameserver 192.0.2.53 \nnameserver nonsense\nnameserver 192.0.2.53\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f := newForwarder(nil, []netip.AddrPort{netip.MustParseAddrPort("10.96.0.10:53")})
	f.path = path
	if got := fmt.Sprint(f.upstreams()); got != "[192.0.2.53:53]" {
		t.Errorf("upstreams %s", got)
	}
}

// awayCache has nothing to tell until it is let go.
type awayCache struct {
	client.Cache
	back chan struct{}
}

func (c awayCache) Subscribe(ctx context.Context, r *schema.Resource, fn func(client.Event)) error {
	select {
	case <-c.back:
		return c.Cache.Subscribe(ctx, r, fn)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// After a restart while the API server is away names of the world are answered,
// and those of the cluster are not denied.
func TestServesWhileTheServerIsAway(t *testing.T) {
	upstream := serve(t, world(), []netip.AddrPort{}) // stands for the world
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.LocalAddr().(*net.UDPAddr).AddrPort()
	l.Close()
	cache := awayCache{world().Cache(), make(chan struct{})}
	s := New(Config{Cache: cache, Domain: "other.local", Addr: []netip.AddrPort{addr}, Upstreams: []netip.AddrPort{netip.MustParseAddrPort(upstream)}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	rcode := func(name string) int {
		q := new(dns.Msg)
		q.SetQuestion(name, dns.TypeA)
		for deadline := time.Now().Add(15 * time.Second); ; {
			r, _, err := (&dns.Client{Timeout: 5 * time.Second}).Exchange(q, addr.String())
			if err == nil {
				return r.Rcode
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if got := rcode("web.shop.svc.cluster.local."); got != dns.RcodeSuccess {
		t.Errorf("a name of the world: %s", dns.RcodeToString[got])
	}
	if got := rcode("web.shop.svc.other.local."); got != dns.RcodeServerFailure {
		t.Errorf("a name of the cluster: %s", dns.RcodeToString[got])
	}
	close(cache.back)
	<-s.Ready()
	if got := rcode("web.shop.svc.other.local."); got != dns.RcodeSuccess {
		t.Errorf("a name of the cluster when it is known: %s", dns.RcodeToString[got])
	}
}
