package auth

import (
	"net/http"
	"slices"
	"strings"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Tokens checks service-account tokens. *token.Authority is one.
type Tokens interface {
	Authenticate(token string, audiences []string) (user.Info, []string, error)
}

// Passwords checks names and passwords. *basic.File is one.
type Passwords interface {
	Authenticate(name, password string) (user.Info, bool)
}

// AuthenticatorConfig is what authentication needs. What is nil is off.
type AuthenticatorConfig struct {
	// CAs issue client certificates. *pki.Authority and *CABundle are some.
	CAs CAs
	// FrontProxy trusts a proxy that names the user in headers.
	FrontProxy *FrontProxy
	// Passwords checks basic authentication.
	Passwords Passwords

	// Bearer tokens are shown to these in turn. The first that knows one wins.
	Static    authenticator.Token // a token file (OpenTokenFile)
	Tokens    Tokens              // service accounts
	Bootstrap authenticator.Token // bootstrap.Tokens
	OIDC      authenticator.Token // oidc.Open
	Webhook   authenticator.Token // webhook.OpenTokens
	// TokenPaths are prefixes of paths where the password of basic authentication
	// may be a bearer token, whatever the name: Git's clients and browsers know no other way.
	TokenPaths []string
	// Audiences are those of the API server, which tokens without an audience
	// of their own are for. Default: token.Authority.Audiences' default.
	Audiences []string

	// Anonymous lets requests without credentials through as system:anonymous.
	// RBAC lets it see the health and version endpoints only.
	Anonymous bool
	// AnonymousPaths, if any, are the only paths where Anonymous holds.
	AnonymousPaths []string
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Authenticator says whom a request is from. It is safe for concurrent use.
type Authenticator struct {
	cfg    AuthenticatorConfig
	certs  certCache
	token  authenticator.Token // nil: no bearer tokens
	bearer []authenticator.Request
}

// NewAuthenticator returns an authenticator.
func NewAuthenticator(cfg AuthenticatorConfig) *Authenticator {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if len(cfg.Audiences) == 0 {
		cfg.Audiences = []string{"https://kubernetes.default.svc.cluster.local"}
	}
	a := &Authenticator{cfg: cfg, token: tokenChain(&cfg)}
	if a.token != nil {
		a.bearer = []authenticator.Request{bearertoken.New(a.token), websocket.NewProtocolAuthenticator(a.token)}
	}
	return a
}

// Authenticate returns the user of a request. The kinds of credentials are
// tried in upstream's order (front proxy, certificate, password, bearer token,
// token of a WebSocket); the first good one wins. ok is false when the request
// has none. An error says that it has some and that they are no good: the
// answer is 401 either way, and nobody falls back to anonymous with a bad
// credential. Credentials in headers are removed when they were used.
//
// As upstream, an Authorization header of a kind that is not configured is no
// credential, and neither is a certificate without a common name.
func (a *Authenticator) Authenticate(r *http.Request) (user.Info, bool, error) {
	var errs []error
	for _, try := range [...]func(*http.Request) (user.Info, bool, error){a.proxied, a.certificate, a.password} {
		u, ok, err := try(r)
		if ok {
			return withAuthenticated(u), true, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, b := range a.bearer {
		resp, ok, err := b.AuthenticateRequest(r)
		if ok {
			return withAuthenticated(resp.User), true, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, false, utilerrors.NewAggregate(errs)
	}
	if a.cfg.Anonymous && (len(a.cfg.AnonymousPaths) == 0 || slices.Contains(a.cfg.AnonymousPaths, r.URL.Path)) {
		return &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, true, nil
	}
	return nil, false, nil
}

func (a *Authenticator) password(r *http.Request) (user.Info, bool, error) {
	tokens := a.token != nil && slices.ContainsFunc(a.cfg.TokenPaths, func(p string) bool { return strings.HasPrefix(r.URL.Path, p) })
	if a.cfg.Passwords == nil && !tokens {
		return nil, false, nil
	}
	name, password, ok := r.BasicAuth()
	if !ok {
		return nil, false, nil
	}
	if a.cfg.Passwords != nil {
		if u, ok := a.cfg.Passwords.Authenticate(name, password); ok {
			r.Header.Del("Authorization")
			return u, true, nil
		}
	}
	if !tokens {
		return nil, false, errPassword
	}
	resp, ok, err := a.token.AuthenticateToken(r.Context(), password)
	if err != nil || !ok {
		return nil, false, utilerrors.NewAggregate([]error{errInvalidToken, err})
	}
	r.Header.Del("Authorization")
	return resp.User, true, nil
}

// withAuthenticated adds the group of everybody who is known.
func withAuthenticated(u user.Info) user.Info {
	groups := u.GetGroups()
	if slices.Contains(groups, user.AllAuthenticated) || slices.Contains(groups, user.AllUnauthenticated) {
		return u
	}
	return &user.DefaultInfo{
		Name: u.GetName(), UID: u.GetUID(), Extra: u.GetExtra(),
		Groups: append(append(make([]string, 0, len(groups)+1), groups...), user.AllAuthenticated),
	}
}
