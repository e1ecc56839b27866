package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Bounds of one call.
const (
	callTimeout = 15 * time.Second
	maxAnswer   = 4 << 10 // bytes of an answer that are read
	maxShown    = 200     // bytes of an answer that are shown
	maxRedirect = 3
	// maxWait is how long a receiver may ask us to wait.
	maxWait = time.Hour
)

// outcome is what came of a call.
type outcome struct {
	// err says why the message has not arrived; nil: it has.
	err error
	// refused says that this message is refused and others may pass; otherwise
	// the receiver as a whole is away or busy.
	refused bool
	// wait is how long the receiver asks us to wait before the next call.
	wait time.Duration
}

// sender calls one receiver.
type sender struct {
	fixed http.RoundTripper // for tests; nil: real
	ca    [sha256.Size]byte
	http  *http.Client
}

// send makes a call. now is the clock for answers that name a time.
func (s *sender) send(ctx context.Context, c call, t target) outcome {
	h, err := s.client(t.ca)
	if err != nil {
		return outcome{err: err, refused: true}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(c.body))
	if err != nil {
		return outcome{err: errNoURL, refused: true}
	}
	for k, v := range c.header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "writ")
	res, err := h.Do(req)
	if err != nil {
		return outcome{err: fmt.Errorf("call %s: %w", req.URL.Host, withoutURL(err))}
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) // what could be read
	out := judge(res.StatusCode, res.Header, string(body), time.Now())
	if out.err != nil {
		out.err = fmt.Errorf("%s answers %w", req.URL.Host, conceal(out.err, t))
	}
	return out
}

// judge says what an answer means.
//
// Retry-After is of RFC 9110, in seconds (Discord: with a fraction) or a date;
// X-RateLimit-Reset of GitHub and RateLimit-Reset of GitLab are seconds since
// 1970.
func judge(status int, h http.Header, body string, now time.Time) outcome {
	var out outcome
	limited := h.Get("X-Ratelimit-Remaining") == "0" || h.Get("Ratelimit-Remaining") == "0"
	if limited {
		out.wait = until(h.Get("X-Ratelimit-Reset"), h.Get("Ratelimit-Reset"), now)
	}
	asked, again := retryAfter(h.Get("Retry-After"), now)
	out.wait = min(max(out.wait, asked), maxWait)
	switch {
	case status/100 == 2:
		return out
	case status == http.StatusBadRequest && strings.Contains(body, "Cannot transition status"):
		return out // GitLab knows it already
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status/100 == 5,
		status == http.StatusForbidden && (limited || again || strings.Contains(body, "secondary rate limit")):
	default:
		out.refused = true
	}
	text := line(strings.ToValidUTF8(body, "?"))
	if status/100 == 3 {
		text = "a redirect to another host, which is not followed; set the new URL"
	}
	out.err = errors.New(strings.TrimSuffix(fmt.Sprintf("%d %s: %s", status, http.StatusText(status), cut(text, maxShown)), ": "))
	return out
}

// until is how long it is to the first of the times that can be read.
func until(a, b string, now time.Time) time.Duration {
	for _, s := range []string{a, b} {
		if at, err := strconv.ParseInt(s, 10, 64); err == nil {
			return max(0, time.Unix(at, 0).Sub(now))
		}
	}
	return 0
}

func retryAfter(s string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, maxWait.Seconds()) * float64(time.Second)), true
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, at.Sub(now)), true
	}
	return 0, false
}

// withoutURL takes the URL out of an error of net/http: it may be a secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// conceal takes the token and the path of the URL out of what a receiver
// answers, which may repeat them.
func conceal(err error, t target) error {
	text := err.Error()
	secrets := []string{t.token}
	if u, perr := url.Parse(t.url); perr == nil {
		secrets = append(secrets, u.RequestURI(), u.Path, u.RawQuery)
	}
	for _, s := range secrets {
		if len(s) > 3 {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return errors.New(text)
}

// client returns the HTTP client for a receiver with its own authority.
func (s *sender) client(ca []byte) (*http.Client, error) {
	sum := sha256.Sum256(ca)
	if s.http != nil && s.ca == sum {
		return s.http, nil
	}
	s.close()
	rt := s.fixed
	if rt == nil {
		t, err := transport(ca)
		if err != nil {
			return nil, err
		}
		rt = t
	}
	s.ca, s.http = sum, &http.Client{Transport: rt, CheckRedirect: sameHost}
	return s.http, nil
}

func (s *sender) close() {
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
}

func transport(ca []byte) (*http.Transport, error) {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: 2, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: callTimeout, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		DialContext: (&net.Dialer{Timeout: callTimeout, Control: allowed}).DialContext, MaxResponseHeaderBytes: 64 << 10}
	if len(ca) > 0 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("the key %q of the Secret has no certificate", caKey)
		}
		t.TLSClientConfig.RootCAs = pool
	}
	return t, nil
}

// allowed refuses addresses that no receiver has, after the name was resolved:
// link-local ones are those of a cloud's metadata service.
func allowed(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ip := a.Addr().Unmap(); ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
		return errors.New("the address " + ip.String() + " is not called")
	}
	return nil
}

// sameHost follows a redirect that keeps method, scheme and host: the token
// goes nowhere else.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > maxRedirect || req.Method != first.Method || req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}
