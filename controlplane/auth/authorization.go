package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"

	"github.com/writ-os/writ/controlplane/auth/abac"
	"github.com/writ-os/writ/controlplane/auth/webhook"
	"github.com/writ-os/writ/controlplane/reload"
)

// The modes of authorization, as --authorization-mode names them.
const (
	ModeAlwaysAllow = "AlwaysAllow"
	ModeAlwaysDeny  = "AlwaysDeny"
	ModeABAC        = "ABAC"
	ModeWebhook     = "Webhook"
	ModeRBAC        = "RBAC"
	ModeNode        = "Node"
)

var modes = []string{ModeAlwaysAllow, ModeAlwaysDeny, ModeABAC, ModeWebhook, ModeRBAC, ModeNode}

// Authorization says who decides, by flags or by Kubernetes'
// AuthorizationConfiguration file.
type Authorization struct {
	// File is an AuthorizationConfiguration (--authorization-config); Modes and
	// Webhook must be empty then.
	File string
	// Modes in order (--authorization-mode). Default: Node, RBAC.
	Modes []string
	// PolicyFile is for ABAC (--authorization-policy-file).
	PolicyFile string
	// Webhook is for Webhook (--authorization-webhook-*).
	Webhook webhook.AuthorizerConfig
}

// Open checks the configuration and makes the members of a chain. It warns of
// modes that nobody should run with.
func (c Authorization) Open(log *slog.Logger) ([]Member, error) {
	if c.File != "" {
		if len(c.Modes) > 0 || c.Webhook.File != "" {
			return nil, errors.New("authorization-config can not be specified when authorization-mode or authorization-webhook-* flags are defined")
		}
		return c.fromFile(log)
	}
	if len(c.Modes) == 0 {
		c.Modes = []string{ModeNode, ModeRBAC}
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	var chain []Member
	for _, mode := range c.Modes {
		m, err := c.member(mode, c.Webhook, log)
		if err != nil {
			return nil, err
		}
		chain = append(chain, m)
	}
	return chain, nil
}

// check finds what does not go together, with upstream's words.
func (c Authorization) check() error {
	var errs []error
	for i, mode := range c.Modes {
		if !slices.Contains(modes, mode) {
			errs = append(errs, fmt.Errorf("authorization-mode %q is not a valid mode", mode))
		}
		if slices.Contains(c.Modes[:i], mode) {
			errs = append(errs, fmt.Errorf("authorization-mode %q has mode specified more than once", c.Modes))
		}
	}
	has := func(mode string) bool { return slices.Contains(c.Modes, mode) }
	if has(ModeABAC) && c.PolicyFile == "" {
		errs = append(errs, errors.New("authorization-mode ABAC's authorization policy file not passed"))
	}
	if !has(ModeABAC) && c.PolicyFile != "" {
		errs = append(errs, errors.New("cannot specify --authorization-policy-file without mode ABAC"))
	}
	if has(ModeWebhook) && c.Webhook.File == "" {
		errs = append(errs, errors.New("authorization-mode Webhook's authorization config file not passed"))
	}
	if !has(ModeWebhook) && c.Webhook.File != "" {
		errs = append(errs, errors.New("cannot specify --authorization-webhook-config-file without mode Webhook"))
	}
	return utilerrors.NewAggregate(errs)
}

func (c Authorization) member(mode string, hook webhook.AuthorizerConfig, log *slog.Logger) (Member, error) {
	m := Member{Mode: mode}
	var err error
	switch mode {
	case ModeABAC:
		var p abac.Policies
		p, err = abac.Open(c.PolicyFile, log)
		m.Decider = p
	case ModeWebhook:
		m.Decider, err = webhook.NewAuthorizer(hook)
	case ModeAlwaysAllow:
		log.Warn("everybody may do everything: authorization mode AlwaysAllow")
	}
	return m, err
}

// fromFile makes the members that an AuthorizationConfiguration names.
func (c Authorization) fromFile(log *slog.Logger) ([]Member, error) {
	data, err := reload.ReadFile(c.File)
	if err != nil {
		return nil, fmt.Errorf("read authorization configuration: %w", err)
	}
	return c.parse(data, nil, log)
}

// parse is fromFile of its content. Members other than webhooks are those of
// the server's start, if it has had one.
func (c Authorization) parse(data []byte, first []Member, log *slog.Logger) ([]Member, error) {
	fail := func(err error) ([]Member, error) {
		return nil, fmt.Errorf("read authorization configuration %s: %w", c.File, err)
	}
	f, err := load.LoadFromData(data)
	if err != nil {
		return fail(err)
	}
	known := sets.New(modes...)
	if errs := validation.ValidateAuthorizationConfiguration(authorizationcel.NewDefaultCompiler(), nil, f, known, sets.New(ModeWebhook)); len(errs) > 0 {
		return fail(errs.ToAggregate())
	}
	var chain []Member
	for _, a := range f.Authorizers {
		mode := string(a.Type)
		if want := strings.ToLower(mode); mode != ModeWebhook && a.Name != want {
			return fail(fmt.Errorf("expected name %s for authorizer %s instead of %s", want, mode, a.Name))
		}
		m, err := c.again(mode, first, hookOf(a), log)
		if err != nil {
			return fail(err)
		}
		chain = append(chain, m)
	}
	if err := missing(first, chain); err != nil {
		return fail(err)
	}
	return chain, nil
}

func hookOf(a apiserver.AuthorizerConfiguration) webhook.AuthorizerConfig {
	w := a.Webhook
	if w == nil {
		return webhook.AuthorizerConfig{}
	}
	ttl := func(cache bool, d time.Duration) time.Duration {
		if cache {
			return d
		}
		return 0
	}
	h := webhook.AuthorizerConfig{
		Name: a.Name, Version: w.SubjectAccessReviewVersion, Timeout: w.Timeout.Duration,
		AllowTTL:    ttl(w.CacheAuthorizedRequests, w.AuthorizedTTL.Duration),
		DenyTTL:     ttl(w.CacheUnauthorizedRequests, w.UnauthorizedTTL.Duration),
		DenyOnError: w.FailurePolicy == apiserver.FailurePolicyDeny,
	}
	if w.ConnectionInfo.KubeConfigFile != nil {
		h.File = *w.ConnectionInfo.KubeConfigFile
	}
	for _, m := range w.MatchConditions {
		h.Conditions = append(h.Conditions, m.Expression)
	}
	return h
}
