// Package oidc checks ID tokens of OpenID Connect providers: the --oidc-*
// flags, or Kubernetes' AuthenticationConfiguration file with several issuers
// and CEL mappings. The work is done by k8s.io/apiserver.
//
// It watches the issuers' keys and the files of its configuration, and owns
// nothing. It promises that an issuer
// that hangs holds up no other request and no start: until its keys are known
// its tokens are refused.
package oidc

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"

	"github.com/writ-os/writ/controlplane/reload"
)

// Flags are one issuer, as upstream's --oidc-* flags name it.
type Flags struct {
	IssuerURL, ClientID string
	// CAFile holds the CAs of the issuer's server. Default: the system's.
	CAFile string
	// UsernameClaim defaults to "sub". UsernamePrefix defaults to
	// "<issuer>#", and to none for "email" and "-".
	UsernameClaim, UsernamePrefix string
	GroupsClaim, GroupsPrefix     string
	// SigningAlgs default to RS256.
	SigningAlgs    []string
	RequiredClaims map[string]string
}

// Config is everything the authenticator needs.
type Config struct {
	// File is an AuthenticationConfiguration; Flags must be nil then.
	File  string
	Flags *Flags
	// Disallowed are issuers that are the cluster's own.
	Disallowed []string
	// ServerID names this server in metrics.
	ServerID string
	// Every is how often the files are read again. Default: reload.Every.
	Every   time.Duration
	Metrics *reload.Metrics // of reloads
	Log     *slog.Logger
}

// Authenticator checks tokens of all issuers. It is safe for concurrent use.
type Authenticator struct {
	cfg   Config
	files *reload.Watcher
	now   atomic.Pointer[issuers]
	// Anonymous is what the file says about anonymous requests; nil: nothing.
	// It holds until the server ends.
	Anonymous *apiserver.AnonymousAuthConfig
}

// issuers are those of one state of the configuration.
type issuers struct {
	token  authenticator.Token
	checks []func() error
	end    context.CancelFunc // ends the questions for keys
}

var _ authenticator.Token = (*Authenticator)(nil)

// Open reads the configuration. Issuers are asked for their keys in the
// background until ctx ends.
func Open(ctx context.Context, cfg Config) (*Authenticator, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	a := &Authenticator{cfg: cfg}
	a.files = reload.New(reload.Config{Name: cfg.name(), Files: cfg.files(), Take: a.take, Every: cfg.Every, Metrics: cfg.Metrics, Log: cfg.Log})
	if err := a.files.Load(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// Run follows the configuration's files until ctx ends.
func (a *Authenticator) Run(ctx context.Context) error { return a.files.Run(ctx) }

// take reads a state of the files. Another than the first takes over when its
// issuers have told their keys: until then the one before it holds.
func (a *Authenticator) take(ctx context.Context, data [][]byte) error {
	c, algs, err := a.cfg.parse(data)
	if err != nil {
		return err
	}
	old := a.now.Load()
	if old == nil {
		a.Anonymous = c.Anonymous
	}
	compiler := authenticationcel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	errs := validation.ValidateAuthenticationConfiguration(compiler, c, a.cfg.Disallowed)
	if !reflect.DeepEqual(a.Anonymous, c.Anonymous) {
		errs = append(errs, field.Forbidden(field.NewPath("anonymous"), "changed from initial configuration file"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("authentication configuration %s: %w", a.cfg.File, errs.ToAggregate())
	}
	next, err := a.cfg.connect(ctx, c, algs, compiler)
	if err != nil {
		return err
	}
	if old != nil {
		if err := next.wait(ctx); err != nil {
			next.end()
			return reload.Later(fmt.Errorf("ask the issuers for their keys: %w", err))
		}
		old.end()
	}
	a.now.Store(next)
	return nil
}

// connect begins to ask the issuers for their keys.
func (cfg *Config) connect(ctx context.Context, c *apiserver.AuthenticationConfiguration, algs []string, compiler authenticationcel.Compiler) (*issuers, error) {
	ctx, end := context.WithCancel(ctx)
	n := &issuers{end: end}
	var all []authenticator.Token
	for _, j := range c.JWT {
		opts := oidc.Options{JWTAuthenticator: j, SupportedSigningAlgs: algs, DisallowedIssuers: cfg.Disallowed, Compiler: compiler, APIServerID: cfg.ServerID}
		if ca := j.Issuer.CertificateAuthority; ca != "" {
			opts.CAContentProvider = bundle(ca)
		}
		t, err := oidc.New(ctx, opts)
		if err != nil {
			end()
			return nil, fmt.Errorf("OIDC issuer %s: %w", j.Issuer.URL, err)
		}
		all = append(all, t)
		n.checks = append(n.checks, t.HealthCheck)
	}
	// An issuer's word is final for its own tokens: the first error ends it.
	n.token = tokenunion.NewFailOnError(all...)
	return n, nil
}

// patience is how long the issuers of a new configuration have to tell their
// keys: upstream's.
const patience = time.Minute

// wait returns when all issuers have told their keys, or why not.
func (n *issuers) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := n.check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

func (n *issuers) check() error {
	var errs []error
	for _, c := range n.checks {
		errs = append(errs, c())
	}
	return utilerrors.NewAggregate(errs)
}

// AuthenticateToken implements authenticator.Token.
func (a *Authenticator) AuthenticateToken(ctx context.Context, t string) (*authenticator.Response, bool, error) {
	return a.now.Load().token.AuthenticateToken(ctx, t)
}

// Check says which issuers' keys are not known yet.
func (a *Authenticator) Check() error { return a.now.Load().check() }

// bundle is a fixed oidc.CAContentProvider.
type bundle string

func (b bundle) CurrentCABundleContent() []byte { return []byte(b) }
