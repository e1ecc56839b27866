package dns

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// resolvConf names the upstream resolvers, and is looked at again after
	// resolvEvery: DHCP rewrites it.
	resolvConf  = "/etc/resolv.conf"
	resolvEvery = 5 * time.Second
	// upstreamTimeout is how long one upstream may take to answer.
	upstreamTimeout = 2 * time.Second
	// maxAge bounds how long a foreign answer is kept, maxAnswers how many.
	maxAge     = 30 * time.Second
	maxAnswers = 4096
)

// forwarder asks upstream resolvers and remembers what they said.
type forwarder struct {
	fixed []netip.AddrPort // nil: those of resolv.conf
	own   []netip.AddrPort // never ask ourselves
	path  string

	mu      sync.Mutex
	read    time.Time
	current []netip.AddrPort
	answers map[question]kept
}

type question struct {
	name   string
	qtype  uint16
	dnssec bool
	tcp    bool // what came truncated over UDP is whole over TCP
}

type kept struct {
	msg   *dns.Msg
	since time.Time
	until time.Time
}

func newForwarder(fixed, own []netip.AddrPort) *forwarder {
	return &forwarder{fixed: fixed, own: own, path: resolvConf, answers: map[question]kept{}}
}

// fill completes m, a reply to q, with what the upstreams say.
func (f *forwarder) fill(m, q *dns.Msg, network string) {
	key := question{strings.ToLower(q.Question[0].Name), q.Question[0].Qtype, false, network == "tcp"}
	if opt := q.IsEdns0(); opt != nil {
		key.dnssec = opt.Do()
	}
	now := time.Now()
	r := f.recall(key, now)
	if r == nil {
		if r = f.ask(q, network); r == nil {
			m.Rcode = dns.RcodeServerFailure
			return
		}
		f.remember(key, r, now)
	}
	m.Rcode, m.Truncated, m.AuthenticatedData = r.Rcode, r.Truncated, r.AuthenticatedData
	m.Answer, m.Ns = r.Answer, r.Ns
	for _, rr := range r.Extra {
		if _, ok := rr.(*dns.OPT); !ok { // ours is there already
			m.Extra = append(m.Extra, rr)
		}
	}
}

// ask asks one upstream after the other; nil when none has answered.
func (f *forwarder) ask(q *dns.Msg, network string) *dns.Msg {
	c := &dns.Client{Net: network, Timeout: upstreamTimeout, UDPSize: maxUDP}
	var failed *dns.Msg
	for _, up := range f.upstreams() {
		req := q.Copy()
		req.Id = dns.Id()
		req.RecursionDesired = true
		r, _, err := c.Exchange(req, up.String())
		if err != nil {
			continue
		}
		if r.Rcode == dns.RcodeServerFailure || r.Rcode == dns.RcodeRefused {
			failed = r
			continue
		}
		return r
	}
	return failed
}

// upstreams are the resolvers to ask, best first.
func (f *forwarder) upstreams() []netip.AddrPort {
	if f.fixed != nil {
		return f.fixed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.read) > resolvEvery {
		f.read = now
		data, err := os.ReadFile(f.path)
		if err == nil || os.IsNotExist(err) {
			f.current = parseResolvConf(string(data), f.own)
		}
	}
	return f.current
}

// parseResolvConf returns the nameservers of a resolv.conf, but for ourselves.
func parseResolvConf(text string, own []netip.AddrPort) []netip.AddrPort {
	var out []netip.AddrPort
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		a, err := netip.ParseAddr(fields[1])
		if err != nil {
			continue
		}
		if ap := netip.AddrPortFrom(a, 53); !slices.Contains(own, ap) && !slices.Contains(out, ap) {
			out = append(out, ap)
		}
	}
	return out
}

// recall returns a kept answer with its times counted down.
func (f *forwarder) recall(key question, now time.Time) *dns.Msg {
	f.mu.Lock()
	k, ok := f.answers[key]
	f.mu.Unlock()
	if !ok || !now.Before(k.until) {
		return nil
	}
	m := k.msg.Copy()
	age := uint32(now.Sub(k.since) / time.Second)
	for _, rrs := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range rrs {
			if h := rr.Header(); h.Rrtype != dns.TypeOPT {
				h.Ttl -= min(h.Ttl, age)
			}
		}
	}
	return m
}

// remember keeps an answer as long as it allows.
func (f *forwarder) remember(key question, m *dns.Msg, now time.Time) {
	age := lifetime(m)
	if age <= 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.answers) >= maxAnswers {
		f.makeRoom(now)
	}
	f.answers[key] = kept{m.Copy(), now, now.Add(age)}
}

// makeRoom drops what is over, and if that is not enough a quarter of the rest.
func (f *forwarder) makeRoom(now time.Time) {
	for key, k := range f.answers {
		if !now.Before(k.until) {
			delete(f.answers, key)
		}
	}
	for key := range f.answers { // in random order
		if len(f.answers) <= maxAnswers*3/4 {
			return
		}
		delete(f.answers, key)
	}
}

// lifetime says how long a message may be kept: the shortest of its times, and
// for one that says that there is nothing, what its SOA grants.
func lifetime(m *dns.Msg) time.Duration {
	if m.Truncated || (m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError) {
		return 0
	}
	shortest := uint32(maxAge / time.Second)
	if len(m.Answer) == 0 {
		soa := false
		for _, rr := range m.Ns {
			if s, ok := rr.(*dns.SOA); ok {
				shortest, soa = min(shortest, s.Minttl, s.Hdr.Ttl), true
			}
		}
		if !soa {
			return 0
		}
	}
	for _, rrs := range [][]dns.RR{m.Answer, m.Ns} {
		for _, rr := range rrs {
			shortest = min(shortest, rr.Header().Ttl)
		}
	}
	return time.Duration(shortest) * time.Second
}
