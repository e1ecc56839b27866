// Package oidc checks ID tokens of OpenID Connect providers: the --oidc-*
// flags, or Kubernetes' AuthenticationConfiguration file with several issuers
// and CEL mappings. The work is done by k8s.io/apiserver.
//
// It watches the issuers' keys and owns nothing. It promises that an issuer
// that hangs holds up no other request and no start: until its keys are known
// its tokens are refused.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"os"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
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
}

// Authenticator checks tokens of all issuers.
type Authenticator struct {
	token  authenticator.Token
	checks []func() error
	// Anonymous is what the file says about anonymous requests; nil: nothing.
	Anonymous *apiserver.AnonymousAuthConfig
}

var _ authenticator.Token = (*Authenticator)(nil)

// Open reads the configuration. Issuers are asked for their keys in the
// background until ctx ends.
func Open(ctx context.Context, cfg Config) (*Authenticator, error) {
	c, algs, err := cfg.read()
	if err != nil {
		return nil, err
	}
	compiler := authenticationcel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if errs := validation.ValidateAuthenticationConfiguration(compiler, c, cfg.Disallowed); len(errs) > 0 {
		return nil, fmt.Errorf("authentication configuration %s: %w", cfg.File, errs.ToAggregate())
	}
	a := &Authenticator{Anonymous: c.Anonymous}
	var all []authenticator.Token
	for _, j := range c.JWT {
		opts := oidc.Options{JWTAuthenticator: j, SupportedSigningAlgs: algs, DisallowedIssuers: cfg.Disallowed, Compiler: compiler, APIServerID: cfg.ServerID}
		if ca := j.Issuer.CertificateAuthority; ca != "" {
			opts.CAContentProvider = bundle(ca)
		}
		t, err := oidc.New(ctx, opts)
		if err != nil {
			return nil, fmt.Errorf("OIDC issuer %s: %w", j.Issuer.URL, err)
		}
		all = append(all, t)
		a.checks = append(a.checks, t.HealthCheck)
	}
	// An issuer's word is final for its own tokens: the first error ends it.
	a.token = tokenunion.NewFailOnError(all...)
	return a, nil
}

// AuthenticateToken implements authenticator.Token.
func (a *Authenticator) AuthenticateToken(ctx context.Context, t string) (*authenticator.Response, bool, error) {
	return a.token.AuthenticateToken(ctx, t)
}

// Check says which issuers' keys are not known yet.
func (a *Authenticator) Check() error {
	var errs []error
	for _, c := range a.checks {
		errs = append(errs, c())
	}
	return utilerrors.NewAggregate(errs)
}

// bundle is a fixed oidc.CAContentProvider.
type bundle string

func (b bundle) CurrentCABundleContent() []byte { return []byte(b) }

func (cfg *Config) read() (*apiserver.AuthenticationConfiguration, []string, error) {
	switch {
	case cfg.File != "" && cfg.Flags != nil:
		return nil, nil, errors.New("OIDC is configured by flags and by an authentication configuration file: use one of them")
	case cfg.File != "":
		data, err := os.ReadFile(cfg.File)
		if err != nil {
			return nil, nil, fmt.Errorf("read authentication configuration: %w", err)
		}
		c, err := Decode(data)
		if err != nil {
			return nil, nil, fmt.Errorf("read authentication configuration %s: %w", cfg.File, err)
		}
		return c, oidc.AllValidSigningAlgorithms(), nil
	case cfg.Flags == nil:
		return nil, nil, errors.New("OIDC needs an issuer or an authentication configuration file")
	}
	c, err := cfg.Flags.configuration()
	if err != nil {
		return nil, nil, err
	}
	algs := cfg.Flags.SigningAlgs
	if len(algs) == 0 {
		algs = []string{"RS256"}
	}
	return c, algs, nil
}
