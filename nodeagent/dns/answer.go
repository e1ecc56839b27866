package dns

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/writ-os/writ/schema"
)

// ttl is how long, in seconds, clients may believe an answer: endpoints of
// headless Services come and go.
const ttl = 5

// specVersion is the version of the Kubernetes DNS specification we follow.
const specVersion = "1.1.0"

// answer is what the tables say to a question.
type answer struct {
	rcode             int
	answer, extra, ns []dns.RR
	// follow is the name that a CNAME in answer leads to.
	follow string
}

// answer looks a question up. It returns false when the name is not of the
// cluster's. seed turns the order of addresses, so that clients which take the
// first one spread out.
func (t *tables) answer(q dns.Question, seed int) (answer, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	name := strings.ToLower(q.Name)
	if !strings.HasSuffix(name, ".") {
		name += "."
	}
	if q.Qtype == dns.TypePTR {
		if addr, ok := parseReverse(name); ok {
			if names := t.namesOf(addr); len(names) > 0 {
				return answer{answer: ptrRecords(q, names)}, true
			}
			return answer{}, false
		}
	}
	if name != t.domain && !strings.HasSuffix(name, "."+t.domain) {
		return answer{}, false
	}
	rest := strings.TrimSuffix(strings.TrimSuffix(name, t.domain), ".")
	var labels []string // nearest to the domain first
	if rest != "" {
		labels = strings.Split(rest, ".")
		for i, j := 0, len(labels)-1; i < j; i, j = i+1, j-1 {
			labels[i], labels[j] = labels[j], labels[i]
		}
	}
	a, exists := t.find(q, labels)
	if len(a.answer) == 0 {
		a.ns = []dns.RR{t.soa()}
		if !exists {
			a.rcode = dns.RcodeNameError
		}
	}
	rotate(a.answer, seed)
	return a, true
}

// find answers a name below the domain. A name can exist without having a
// record of the type that is asked for.
func (t *tables) find(q dns.Question, labels []string) (answer, bool) {
	if len(labels) == 0 {
		return t.apex(q), true
	}
	switch labels[0] {
	case "svc":
		return t.findService(q, labels[1:])
	case "pod":
		return findPod(q, labels[1:])
	case "dns-version":
		if len(labels) == 1 {
			if q.Qtype != dns.TypeTXT {
				return answer{}, true
			}
			return answer{answer: []dns.RR{&dns.TXT{Hdr: header(q.Name, dns.TypeTXT), Txt: []string{specVersion}}}}, true
		}
	case "dns": // ns.dns is the server's own name
		return answer{}, len(labels) == 1 || (len(labels) == 2 && labels[1] == "ns")
	}
	return answer{}, false
}

func (t *tables) apex(q dns.Question) answer {
	switch q.Qtype {
	case dns.TypeSOA:
		return answer{answer: []dns.RR{t.soa()}}
	case dns.TypeNS:
		return answer{answer: []dns.RR{&dns.NS{Hdr: header(t.domain, dns.TypeNS), Ns: "ns.dns." + t.domain}}}
	}
	return answer{}
}

func (t *tables) soa() dns.RR {
	return &dns.SOA{Hdr: header(t.domain, dns.TypeSOA), Ns: "ns.dns." + t.domain, Mbox: "hostmaster." + t.domain,
		Serial: t.serial, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl}
}

// findService answers the names below svc.<domain>: namespace, service, and
// then either an endpoint or a protocol and a port.
func (t *tables) findService(q dns.Question, labels []string) (answer, bool) {
	if len(labels) < 2 {
		return answer{}, len(labels) == 0 || t.spaces[labels[0]] > 0
	}
	r := t.services[schema.Key{Namespace: labels[0], Name: labels[1]}]
	if r == nil {
		return answer{}, false
	}
	if r.external != "" {
		return findExternal(q, r, labels[2:])
	}
	switch rest := labels[2:]; {
	case len(rest) == 0:
		if q.Qtype == dns.TypeSRV {
			return t.srv(q, r, func(port) bool { return true }), true
		}
		return answer{answer: addrRecords(q, r.addrs)}, true
	case len(rest) == 1 && (rest[0] == "_tcp" || rest[0] == "_udp" || rest[0] == "_sctp"):
		return answer{}, r.hasPort(func(p port) bool { return "_"+p.proto == rest[0] })
	case len(rest) == 2 && strings.HasPrefix(rest[1], "_"):
		match := func(p port) bool { return p.name != "" && "_"+p.proto == rest[0] && "_"+p.name == rest[1] }
		if q.Qtype != dns.TypeSRV {
			return answer{}, r.hasPort(match)
		}
		return t.srv(q, r, match), r.hasPort(match)
	case len(rest) == 1:
		var addrs []netip.Addr
		for _, e := range r.endpoints {
			if e.host == rest[0] {
				addrs = append(addrs, e.addr)
			}
		}
		return answer{answer: addrRecords(q, addrs)}, len(addrs) > 0
	}
	return answer{}, false
}

func findExternal(q dns.Question, r *record, rest []string) (answer, bool) {
	if len(rest) > 0 {
		return answer{}, false
	}
	switch q.Qtype {
	case dns.TypeA, dns.TypeAAAA, dns.TypeCNAME:
	default:
		return answer{}, true
	}
	a := answer{answer: []dns.RR{&dns.CNAME{Hdr: header(q.Name, dns.TypeCNAME), Target: r.external}}}
	if q.Qtype != dns.TypeCNAME {
		a.follow = r.external
	}
	return a, true
}

// findPod answers <address>.<namespace>.pod with the address in the name.
func findPod(q dns.Question, labels []string) (answer, bool) {
	if len(labels) < 2 {
		return answer{}, true
	}
	addr, ok := undashed(labels[1])
	if !ok || len(labels) > 2 {
		return answer{}, false
	}
	return answer{answer: addrRecords(q, []netip.Addr{addr})}, true
}

func (r *record) hasPort(match func(port) bool) bool {
	for _, p := range r.ports {
		if match(p) {
			return true
		}
	}
	for _, e := range r.endpoints {
		for _, p := range e.ports {
			if match(p) {
				return true
			}
		}
	}
	return false
}

// srv lists the ports that match, each with the name and address behind it.
func (t *tables) srv(q dns.Question, r *record, match func(port) bool) answer {
	var a answer
	add := func(target string, ports []port, addrs []netip.Addr) {
		used := false
		for _, p := range ports {
			if match(p) {
				a.answer = append(a.answer, &dns.SRV{Hdr: header(q.Name, dns.TypeSRV), Priority: 0, Weight: 1, Port: p.port, Target: target})
				used = true
			}
		}
		for _, addr := range addrs {
			if used {
				a.extra = append(a.extra, addrRecord(target, addr))
			}
		}
	}
	name := t.serviceName(r.key)
	add(name, r.ports, r.addrs)
	for _, e := range r.endpoints {
		add(e.host+"."+name, e.ports, []netip.Addr{e.addr})
	}
	for _, rr := range a.answer {
		rr.(*dns.SRV).Weight = uint16(max(1, 100/len(a.answer)))
	}
	return a
}

func addrRecords(q dns.Question, addrs []netip.Addr) []dns.RR {
	var out []dns.RR
	for _, a := range addrs {
		if (q.Qtype == dns.TypeA && a.Is4()) || (q.Qtype == dns.TypeAAAA && a.Is6()) {
			out = append(out, addrRecord(q.Name, a))
		}
	}
	return out
}

func addrRecord(name string, a netip.Addr) dns.RR {
	if a.Is4() {
		return &dns.A{Hdr: header(name, dns.TypeA), A: a.AsSlice()}
	}
	return &dns.AAAA{Hdr: header(name, dns.TypeAAAA), AAAA: a.AsSlice()}
}

func ptrRecords(q dns.Question, names []string) []dns.RR {
	var out []dns.RR
	for _, n := range names {
		out = append(out, &dns.PTR{Hdr: header(q.Name, dns.TypePTR), Ptr: n})
	}
	return out
}

func header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

// rotate begins a list elsewhere.
func rotate(rrs []dns.RR, seed int) {
	if len(rrs) < 2 {
		return
	}
	n := seed % len(rrs)
	copy(rrs, append(append([]dns.RR(nil), rrs[n:]...), rrs[:n]...))
}

// parseReverse reads the address of a name below in-addr.arpa or ip6.arpa.
func parseReverse(name string) (netip.Addr, bool) {
	if s, ok := strings.CutSuffix(name, ".in-addr.arpa."); ok {
		l := strings.Split(s, ".")
		if len(l) != 4 {
			return netip.Addr{}, false
		}
		a, err := netip.ParseAddr(l[3] + "." + l[2] + "." + l[1] + "." + l[0])
		return a, err == nil
	}
	s, ok := strings.CutSuffix(name, ".ip6.arpa.")
	if !ok || len(s) != 63 {
		return netip.Addr{}, false
	}
	var b strings.Builder
	for i := 62; i >= 0; i -= 2 {
		b.WriteByte(s[i])
		if i%8 == 0 && i > 0 {
			b.WriteByte(':')
		}
		if i > 0 && s[i-1] != '.' {
			return netip.Addr{}, false
		}
	}
	a, err := netip.ParseAddr(b.String())
	return a, err == nil
}
