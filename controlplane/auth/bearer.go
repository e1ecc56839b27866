package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/auth/token"
)

// tokenTTL is how long a good answer about a token from elsewhere is reused
// (upstream's default). Refusals are not kept: a token may become good.
const tokenTTL = 10 * time.Second

// tokenChain puts the configured checks of bearer tokens in upstream's order:
// local ones first, then those that may ask others. nil means there are none.
func tokenChain(cfg *AuthenticatorConfig) authenticator.Token {
	var chain []authenticator.Token
	add := func(t authenticator.Token) {
		if t != nil {
			chain = append(chain, authenticator.WrapAudienceAgnosticToken(cfg.Audiences, t))
		}
	}
	add(cfg.Static)
	if cfg.Tokens != nil {
		chain = append(chain, serviceAccounts{cfg.Tokens})
	}
	add(cfg.Bootstrap)
	if cfg.OIDC != nil {
		// A signature of RSA or a CEL mapping for each request is too dear.
		add(NewTokenCache(cfg.OIDC, tokenTTL, 0))
	}
	if cfg.Webhook != nil {
		chain = append(chain, cfg.Webhook)
	}
	switch len(chain) {
	case 0:
		return nil
	case 1:
		return chain[0]
	}
	return tokenunion.New(chain...)
}

// serviceAccounts makes an authenticator.Token of Tokens.
type serviceAccounts struct{ tokens Tokens }

func (s serviceAccounts) AuthenticateToken(ctx context.Context, t string) (*authenticator.Response, bool, error) {
	audiences, _ := authenticator.AudiencesFrom(ctx)
	u, got, err := s.tokens.Authenticate(t, audiences)
	if errors.Is(err, token.ErrForeign) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: u, Audiences: got}, true, nil
}

// OpenTokenFile reads a static token file (--token-auth-file): lines of
// token,user,uid,"group1,group2". Such tokens never expire and cannot be
// revoked without a restart, which a warning says.
func OpenTokenFile(path string, log *slog.Logger) (authenticator.Token, error) {
	t, err := tokenfile.NewCSV(path)
	if err != nil {
		return nil, fmt.Errorf("read token file %s: %w", path, err)
	}
	log.Warn("static tokens are accepted: they never expire; prefer service-account tokens or OIDC", "file", path)
	return t, nil
}

var errInvalidToken = errors.New("invalid bearer token")

// AuthenticateToken answers a TokenReview: whom a token speaks for, and for
// which of the audiences (none asked: the API server's).
func (a *Authenticator) AuthenticateToken(ctx context.Context, t string, audiences []string) (user.Info, []string, error) {
	if a.token == nil {
		return nil, nil, errors.New("bearer tokens are not accepted")
	}
	if len(audiences) == 0 {
		audiences = a.cfg.Audiences
	}
	resp, ok, err := a.token.AuthenticateToken(authenticator.WithAudiences(ctx, audiences), t)
	if err != nil || !ok {
		// Upstream's servers have a token of their own, whose check is in the
		// answer: "[invalid bearer token, service account token has expired]".
		return nil, nil, utilerrors.NewAggregate([]error{errInvalidToken, err})
	}
	got := slices.DeleteFunc(slices.Clone(resp.Audiences), func(s string) bool { return !slices.Contains(audiences, s) })
	if len(got) == 0 {
		// The caller would take the token for one that is meant for it.
		return nil, nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", resp.Audiences, audiences)
	}
	return withAuthenticated(resp.User), got, nil
}

// Reviewer answers TokenReviews for callers without a context.
type Reviewer struct{ *Authenticator }

// reviewTimeout bounds a review that has to ask others.
const reviewTimeout = 30 * time.Second

// Authenticate is AuthenticateToken.
func (r Reviewer) Authenticate(t string, audiences []string) (user.Info, []string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), reviewTimeout)
	defer cancel()
	return r.AuthenticateToken(ctx, t, audiences)
}
