package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/writ-os/writ/controlplane/admission"
	"github.com/writ-os/writ/controlplane/apiserver/audit"
	"github.com/writ-os/writ/controlplane/auth"
	"github.com/writ-os/writ/controlplane/auth/basic"
	"github.com/writ-os/writ/controlplane/auth/bootstrap"
	"github.com/writ-os/writ/controlplane/auth/oidc"
	"github.com/writ-os/writ/controlplane/auth/webhook"
	"github.com/writ-os/writ/reconciler/page"
	"github.com/writ-os/writ/schema/podstandard"
)

// API is what the API server's own flags say, with upstream's names. The zero
// value is what a cluster runs with.
type API struct {
	Authorization auth.Authorization
	// NoAnonymous refuses requests without credentials, NoBootstrapTokens those
	// of machines that join by a token.
	NoAnonymous, NoBootstrapTokens bool
	// PodSecurity is what namespaces that say nothing enforce, and which are exempt.
	// nil: podstandard.Baseline; the empty Config is upstream's default.
	PodSecurity *podstandard.Config
	// NoProfiling does without /debug/pprof.
	NoProfiling          bool
	TokenFile, BasicFile string
	// AuthenticationFile is an AuthenticationConfiguration; OIDC one issuer.
	AuthenticationFile string
	OIDC               oidc.Flags
	TokenWebhook       webhook.TokenConfig
	TokenWebhookTTL    time.Duration
	// ClientCAFile holds CAs of clients besides the cluster's own.
	ClientCAFile string
	FrontProxy   FrontProxy
	// TLS are serving certificates besides the cluster's own.
	TLS ServingFiles
	// EnableAdmission and DisableAdmission are names of admission plugins.
	EnableAdmission, DisableAdmission []string
	Audit                             audit.Config
	// EncryptionFile is an EncryptionConfiguration.
	EncryptionFile string
	// EventTTL is how long an Event is kept. 0: upstream's hour.
	EventTTL time.Duration
	// QuotaBackendBytes is how much the store may hold. 0: 8 GiB.
	QuotaBackendBytes int64
	// InsecurePort serves everybody on 127.0.0.1 as system:masters; 0 is off.
	InsecurePort int
	// MaxInFlight is how many requests run at once. 0: upstream's 600.
	MaxInFlight int
	// FeatureGates switch on what Kubernetes has off by default.
	FeatureGates map[string]bool
}

// podSecurity is what pods are held against when they are made, and so what
// commits are: nothing, where the plugin is off.
func (a API) podSecurity() podstandard.Config {
	switch {
	case slices.Contains(a.DisableAdmission, "PodSecurity"):
		return podstandard.Config{}
	case a.PodSecurity != nil:
		return *a.PodSecurity
	}
	return podstandard.Baseline()
}

// EventTTL is how long upstream keeps an Event.
const EventTTL = time.Hour

// CBORGate is the one feature gate there is: clients may speak CBOR.
const CBORGate = "CBORServingAndStorage"

// FrontProxy is a proxy of the user's that names the user in headers.
type FrontProxy struct {
	CAFile                                string
	AllowedNames                          []string
	UserHeaders, UIDHeaders, GroupHeaders []string
	ExtraPrefixes                         []string
}

// issuer is that of the cluster's service-account tokens.
const issuer = "https://kubernetes.default.svc." + Domain

// Check finds what cannot be before anything is started.
func (a API) Check() error {
	if (a.TLS.CertFile == "") != (a.TLS.KeyFile == "") {
		return errors.New("--tls-cert-file and --tls-private-key-file are one certificate and its key: give both or none")
	}
	if a.EventTTL < 0 {
		return fmt.Errorf("--event-ttl %v: must be a time, such as 1h", a.EventTTL)
	}
	if a.QuotaBackendBytes < 0 || a.QuotaBackendBytes > 0 && a.QuotaBackendBytes < 64<<20 {
		return fmt.Errorf("--quota-backend-bytes %d: must be 0 or 64 MiB at least", a.QuotaBackendBytes)
	}
	for name := range a.FeatureGates {
		if name != CBORGate {
			return fmt.Errorf("--feature-gates: unrecognized feature gate: %s (there is %s)", name, CBORGate)
		}
	}
	return admission.CheckNames(a.EnableAdmission, a.DisableAdmission)
}

// authenticator joins everything that says who asks. What is asked over the
// network ends with ctx.
func (p *ControlPlane) authenticator(ctx context.Context) (*auth.Authenticator, error) {
	a, log := p.cfg.API, p.log("auth")
	if err := p.openCAs(ctx); err != nil {
		return nil, err
	}
	cfg := auth.AuthenticatorConfig{CAs: p.clientCAs, Tokens: p.tokens, Anonymous: !a.NoAnonymous, TokenPaths: []string{"/git/", page.Prefix}}
	if !a.NoBootstrapTokens {
		cfg.Bootstrap = bootstrap.New(bootstrap.Config{Cache: p.registry.Cache(), Log: log})
	}
	var err error
	if a.TokenFile != "" {
		if cfg.Static, err = auth.OpenTokenFile(a.TokenFile, log); err != nil {
			return nil, err
		}
	}
	if a.BasicFile != "" {
		if cfg.Passwords, err = basic.Open(a.BasicFile, log); err != nil {
			return nil, err
		}
	}
	if err := p.openOIDC(ctx, &cfg); err != nil {
		return nil, err
	}
	if a.TokenWebhook.File != "" {
		if cfg.Webhook, err = tokenWebhook(a); err != nil {
			return nil, err
		}
	}
	cfg.FrontProxy = p.trustedProxies()
	return auth.NewAuthenticator(cfg), nil
}

func (p *ControlPlane) openOIDC(ctx context.Context, cfg *auth.AuthenticatorConfig) error {
	o := oidc.Config{File: p.cfg.API.AuthenticationFile, Disallowed: []string{issuer}, ServerID: p.cfg.NodeName, Metrics: p.reloads, Log: p.log("auth")}
	if p.cfg.API.OIDC.IssuerURL != "" {
		o.Flags = &p.cfg.API.OIDC
	}
	if o.File == "" && o.Flags == nil {
		return nil
	}
	issuers, err := oidc.Open(ctx, o)
	if err != nil {
		return err
	}
	cfg.OIDC = issuers
	p.followed = append(p.followed, issuers.Run)
	if issuers.Anonymous != nil {
		cfg.Anonymous = issuers.Anonymous.Enabled
		for _, c := range issuers.Anonymous.Conditions {
			cfg.AnonymousPaths = append(cfg.AnonymousPaths, c.Path)
		}
	}
	return nil
}

func tokenWebhook(a API) (authenticator.Token, error) {
	t, err := webhook.NewTokens(a.TokenWebhook)
	if err != nil {
		return nil, err
	}
	return auth.NewTokenCache(t, a.TokenWebhookTTL, a.TokenWebhookTTL), nil
}

// trustedProxies are our own front proxy, by which this server calls others
// and another of its kind may call it, or the user's.
func (p *ControlPlane) trustedProxies() *auth.FrontProxy {
	f := p.cfg.API.FrontProxy
	if f.CAFile == "" {
		return auth.DefaultFrontProxy(p.frontProxy, frontProxyName)
	}
	return &auth.FrontProxy{CAs: p.proxyCAs, AllowedNames: f.AllowedNames, UserHeaders: f.UserHeaders, UIDHeaders: f.UIDHeaders,
		GroupHeaders: f.GroupHeaders, ExtraPrefixes: f.ExtraPrefixes}
}
