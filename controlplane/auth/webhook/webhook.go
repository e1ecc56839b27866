// Package webhook asks others who somebody is and what they may do: a
// TokenReview or SubjectAccessReview to the server that a kubeconfig file
// names, as Kubernetes' --authentication-token-webhook-config-file and
// --authorization-webhook-config-file. Keystone and other identity services
// are reached this way.
//
// It owns nothing. It promises that a server that hangs or lies costs a
// request its timeout and no more, and that answers are kept in bounded caches.
package webhook

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	authn "k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
	authz "k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
)

// TokenConfig says whom to ask about tokens.
type TokenConfig struct {
	// File is a kubeconfig: the server to ask, its CA, our credentials.
	File string
	// Version of TokenReview to send: "v1" (default) or "v1beta1".
	Version string
	// Audiences of the API server.
	Audiences []string
	// Timeout of one question. Default 30 s, as upstream.
	Timeout time.Duration
	// Backoff between tries. Default upstream's: 5 tries from 500 ms on.
	Backoff *wait.Backoff
}

// NewTokens returns an authenticator that asks each time; put
// auth.NewTokenCache before it.
func NewTokens(cfg TokenConfig) (authenticator.Token, error) {
	rc, err := webhookutil.LoadKubeconfig(cfg.File, nil)
	if err != nil {
		return nil, fmt.Errorf("read token webhook configuration %s: %w", cfg.File, err)
	}
	if cfg.Timeout > 0 {
		rc.Timeout = cfg.Timeout
	}
	if cfg.Version == "" {
		cfg.Version = "v1"
	}
	if cfg.Backoff == nil {
		cfg.Backoff = authn.DefaultRetryBackoff()
	}
	t, err := authn.New(rc, cfg.Version, cfg.Audiences, *cfg.Backoff)
	if err != nil {
		return nil, fmt.Errorf("token webhook of %s: %w", cfg.File, err)
	}
	return t, nil
}

// AuthorizerConfig says whom to ask about permissions.
type AuthorizerConfig struct {
	// Name tells several apart.
	Name string
	// File is a kubeconfig: the server to ask, its CA, our credentials.
	File string
	// Version of SubjectAccessReview to send: "v1" (default) or "v1beta1".
	Version string
	// Timeout of one question. Default 30 s.
	Timeout time.Duration
	// AllowTTL and DenyTTL are how long answers are kept. Upstream's flags
	// default to 5 min and 30 s. 0 keeps none.
	AllowTTL, DenyTTL time.Duration
	// DenyOnError refuses when the server does not answer; else the next
	// authorizer decides.
	DenyOnError bool
	// Conditions are CEL expressions that must all hold for it to be asked.
	Conditions []string
	// Backoff between tries. Default upstream's: 5 tries from 500 ms on.
	Backoff *wait.Backoff
}

// Authorizer decides and says that it cannot list rules.
type Authorizer interface {
	authorizer.Authorizer
	authorizer.RuleResolver
}

// NewAuthorizer returns an authorizer.
func NewAuthorizer(cfg AuthorizerConfig) (Authorizer, error) {
	rc, err := webhookutil.LoadKubeconfig(cfg.File, nil)
	if err != nil {
		return nil, fmt.Errorf("read authorization webhook configuration %s: %w", cfg.File, err)
	}
	if cfg.Timeout > 0 {
		rc.Timeout = cfg.Timeout
	}
	if cfg.Version == "" {
		cfg.Version = "v1"
	}
	if cfg.Backoff == nil {
		cfg.Backoff = authz.DefaultRetryBackoff()
	}
	decision := authorizer.DecisionNoOpinion
	if cfg.DenyOnError {
		decision = authorizer.DecisionDeny
	}
	var (
		compiler   authorizationcel.Compiler // a CEL environment is dear: only when it is used
		conditions []apiserver.WebhookMatchCondition
	)
	for _, e := range cfg.Conditions {
		conditions = append(conditions, apiserver.WebhookMatchCondition{Expression: e})
	}
	if len(conditions) > 0 {
		compiler = authorizationcel.NewDefaultCompiler()
	}
	a, err := authz.New(rc, cfg.Version, cfg.AllowTTL, cfg.DenyTTL, *cfg.Backoff, decision, conditions, cfg.Name, metrics.NoopAuthorizerMetrics{}, compiler)
	if err != nil {
		return nil, fmt.Errorf("authorization webhook of %s: %w", cfg.File, err)
	}
	return a, nil
}
