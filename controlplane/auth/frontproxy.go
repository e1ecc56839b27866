package auth

import (
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// FrontProxy says which proxies may name the user of a request in headers: the
// --requestheader-* flags of upstream.
type FrontProxy struct {
	// CAs issue the proxies' certificates. They must be others than those of
	// clients, or every client may be anybody.
	CAs CAs
	// AllowedNames are the common names of the proxies; none allows all that
	// CAs knows.
	AllowedNames []string
	// Headers to look at, in order. Without UserHeaders nobody is trusted.
	UserHeaders, UIDHeaders, GroupHeaders []string
	// ExtraPrefixes begin headers with extra information.
	ExtraPrefixes []string

	certs certCache
}

// DefaultFrontProxy trusts the headers that Kubernetes' aggregator sends.
func DefaultFrontProxy(cas CAs, names ...string) *FrontProxy {
	return &FrontProxy{
		CAs: cas, AllowedNames: names,
		UserHeaders: []string{"X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"},
		GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
	}
}

// proxied says whom a trusted proxy names. The headers are removed when they
// were used, so that nothing further in takes them for its own.
func (a *Authenticator) proxied(r *http.Request) (user.Info, bool, error) {
	p := a.cfg.FrontProxy
	if p == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	name := firstHeader(r.Header, p.UserHeaders)
	if name == "" {
		return nil, false, nil
	}
	v, err := p.certs.verified(r.TLS.PeerCertificates, p.CAs.Pool(), a.cfg.Now())
	if err != nil {
		return nil, false, err
	}
	if cn := v.user.GetName(); len(p.AllowedNames) > 0 && !slices.Contains(p.AllowedNames, cn) {
		return nil, false, fmt.Errorf("x509: subject with cn=%s is not in the allowed list", cn)
	}
	u := &user.DefaultInfo{Name: name, UID: firstHeader(r.Header, p.UIDHeaders), Groups: allHeaders(r.Header, p.GroupHeaders), Extra: p.extra(r.Header)}
	p.strip(r.Header)
	return u, true, nil
}

func firstHeader(h http.Header, names []string) string {
	for _, n := range names {
		if v := h.Get(n); v != "" {
			return v
		}
	}
	return ""
}

func allHeaders(h http.Header, names []string) []string {
	var out []string
	for _, n := range names {
		for _, v := range h.Values(n) {
			if v != "" {
				out = append(out, v)
			}
		}
	}
	return out
}

// extra reads the headers with a prefix; keys may be escaped as in URLs.
func (p *FrontProxy) extra(h http.Header) map[string][]string {
	out := map[string][]string{}
	for _, prefix := range p.ExtraPrefixes {
		for _, name := range slices.Sorted(maps.Keys(h)) {
			rest, ok := cutPrefixFold(name, prefix)
			if !ok {
				continue
			}
			key := strings.ToLower(rest)
			if plain, err := url.PathUnescape(key); err == nil {
				key = plain
			}
			out[key] = append(out[key], h[name]...)
		}
	}
	return out
}

func (p *FrontProxy) strip(h http.Header) {
	for _, names := range [][]string{p.UserHeaders, p.UIDHeaders, p.GroupHeaders} {
		for _, n := range names {
			h.Del(textproto.CanonicalMIMEHeaderKey(n))
		}
	}
	for name := range h {
		for _, prefix := range p.ExtraPrefixes {
			if _, ok := cutPrefixFold(name, prefix); ok {
				delete(h, name)
			}
		}
	}
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return "", false
	}
	return s[len(prefix):], true
}
