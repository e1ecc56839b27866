package source

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/writ-os/writ/reconciler/source/pack"
)

// dialTimeout bounds reaching a host.
const dialTimeout = 15 * time.Second

// session is one conversation with the remote's upload-pack.
type session interface {
	AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error)
	UploadPack(context.Context, *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	Close() error
}

// pushSession is one conversation with the remote's receive-pack.
type pushSession interface {
	AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error)
	ReceivePack(context.Context, *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error)
	Close() error
}

// remote speaks to a repository on another host.
type remote struct {
	loc     location
	target  target
	dial    func(context.Context) (session, error)
	push    func(context.Context) (pushSession, error)
	idle    func() // closes idle connections
	secrets []string
}

func newRemote(loc location, t target, auth Auth) (*remote, error) {
	auth.Username = cmp.Or(auth.Username, loc.user)
	auth.Password = cmp.Or(auth.Password, loc.password)
	r := &remote{loc: loc, target: t, idle: func() {}}
	for _, s := range []string{auth.Password, auth.BearerToken, loc.password} {
		if s != "" {
			r.secrets = append(r.secrets, s)
		}
	}
	if loc.scheme == "ssh" {
		d, err := newSSH(loc, auth)
		if err != nil {
			return nil, err
		}
		r.dial = func(ctx context.Context) (session, error) { return d.dial(ctx, "git-upload-pack") }
		r.push = func(ctx context.Context) (pushSession, error) { return d.dial(ctx, "git-receive-pack") }
		return r, nil
	}
	if auth.Password == "" && auth.Username != "" {
		r.secrets = append(r.secrets, auth.Username) // https://TOKEN@host
	}
	return r, r.useHTTP(auth)
}

func (r *remote) useHTTP(auth Auth) error {
	tr, err := httpTransport(auth)
	if err != nil {
		return err
	}
	endpoint, err := transport.NewEndpoint(r.loc.url)
	if err != nil {
		return problem(ErrConfig, "the repository's URL cannot be used: write it as https://host/path")
	}
	var method transport.AuthMethod
	switch {
	case auth.BearerToken != "":
		method = &githttp.TokenAuth{Token: auth.BearerToken}
	case auth.Username != "" || auth.Password != "":
		method = &githttp.BasicAuth{Username: auth.Username, Password: auth.Password}
	}
	client := githttp.NewClient(&http.Client{Transport: tr, CheckRedirect: sameHost(method != nil)})
	r.idle = tr.CloseIdleConnections
	r.dial = func(context.Context) (session, error) {
		e := *endpoint // a redirect changes it
		return client.NewUploadPackSession(&e, method)
	}
	r.push = func(context.Context) (pushSession, error) {
		e := *endpoint
		return client.NewReceivePackSession(&e, method)
	}
	return nil
}

// sameHost follows redirects as git does, the first ones of a conversation, but
// none that would take credentials to another host or off TLS.
func sameHost(credentials bool) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		from := via[0].URL
		switch {
		case len(via) >= 10:
			return errors.New("it redirects in a circle")
		case credentials && from.Hostname() != req.URL.Hostname(), from.Scheme == "https" && req.URL.Scheme != "https":
			return problem(ErrConfig, "the repository has moved to %s://%s, where its credentials are not sent: correct the URL", req.URL.Scheme, req.URL.Host)
		}
		return nil
	}
}

func httpTransport(auth Auth) (*http.Transport, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(auth.CA) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(auth.CA) {
			return nil, problem(ErrConfig, "the CA of the repository has no certificate: give it as PEM")
		}
		conf.RootCAs = pool
	}
	if len(auth.ClientCert) > 0 || len(auth.ClientKey) > 0 {
		pair, err := tls.X509KeyPair(auth.ClientCert, auth.ClientKey)
		if err != nil {
			return nil, problem(ErrConfig, "the client certificate for the repository cannot be used: give certificate and key as PEM that belong together")
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, ForceAttemptHTTP2: true,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: dialTimeout, MaxIdleConnsPerHost: 2, IdleConnTimeout: 90 * time.Second}, nil
}

// ask opens a conversation and returns what the target names. The caller closes
// the session when there is no error.
func (r *remote) ask(ctx context.Context) (session, *packp.AdvRefs, choice, error) {
	s, err := r.dial(ctx)
	if err != nil {
		return nil, nil, choice{}, r.explain(ctx, err)
	}
	refs, err := s.AdvertisedReferencesContext(ctx)
	var c choice
	switch {
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		err = noBranch(cmp.Or(r.target.name, "main"), nil)
	case err != nil:
		err = r.explain(ctx, err)
	default:
		c, err = r.target.choose(refs.References, refs.Peeled)
	}
	if err != nil {
		_ = s.Close()
		return nil, nil, choice{}, err
	}
	return s, refs, c, nil
}

// unpack takes the pack out of a response that may be multiplexed.
func unpack(req *packp.UploadPackRequest, resp *packp.UploadPackResponse) interface{ Read([]byte) (int, error) } {
	switch {
	case req.Capabilities.Supports("side-band-64k"):
		return sideband.NewDemuxer(sideband.Sideband64k, resp)
	case req.Capabilities.Supports("side-band"):
		return sideband.NewDemuxer(sideband.Sideband, resp)
	}
	return resp
}

// explain makes one clear message of what went wrong on the way to the remote.
func (r *remote) explain(ctx context.Context, err error) error {
	var (
		known    *told
		cert     *tls.CertificateVerificationError
		dns      *net.DNSError
		statusOf *githttp.Err
	)
	name := r.loc.name
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, pack.ErrTooLarge):
		return problem(ErrTooLarge, "%s sends more than is read (%s): keep manifests in a repository without large files", name, err)
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return problem(ErrUnreachable, "%s does not answer in time: check the network and the host", name)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, transport.ErrAuthorizationFailed):
		return problem(ErrCredentials, "%s knows the credentials and does not allow this%s: let them read the repository, and push to it if it is a mirror, or give others", name, r.reason(err))
	case errors.Is(err, transport.ErrAuthenticationRequired):
		return problem(ErrCredentials, "%s does not accept the credentials: check user, password or token, and that they may read it", name)
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return problem(ErrNoRepo, "there is no repository at %s, or the credentials may not see it: check the URL and who may read it", name)
	case errors.As(err, &cert):
		return problem(ErrUnreachable, "%s shows a certificate that is not trusted (%s): give its CA, or correct the URL", name, r.scrub(cert.Err.Error()))
	case errors.As(err, &dns):
		return problem(ErrUnreachable, "the host of %s has no address: check the URL and the name servers", name)
	case errors.As(err, &statusOf):
		return problem(ErrUnreachable, "%s answers %s: check the URL, or try again later", name, statusOf.Response.Status)
	}
	return problem(ErrUnreachable, "%s cannot be read: %s", name, r.scrub(innermost(err)))
}

// innermost is the text of the cause, without the requests around it.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		var op *net.OpError
		var unexpected *plumbing.UnexpectedError // has no Unwrap
		if next == nil && errors.As(err, &unexpected) {
			next = unexpected.Err
		}
		if next == nil || errors.As(err, &op) && !errors.As(next, &op) {
			return fmt.Sprint(err)
		}
		err = next
	}
}

// reason is what a host says with its refusal, in brackets; "" where it says
// nothing that a person would read.
func (r *remote) reason(err error) string {
	_, text, _ := strings.Cut(err.Error(), transport.ErrAuthorizationFailed.Error()+":")
	text = strings.Join(strings.Fields(r.scrub(text)), " ")
	if text == "" || strings.HasPrefix(text, "<") || strings.ContainsFunc(text, unicode.IsControl) {
		return ""
	}
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return " (" + text + ")"
}

// maxReason bounds what is repeated of a host's words, in bytes.
const maxReason = 300

// scrub takes the credentials out of a text.
func (r *remote) scrub(text string) string {
	for _, s := range r.secrets {
		text = strings.ReplaceAll(text, s, "***")
	}
	return text
}
