// Package bootstrap is how a machine that has nothing but a short token joins:
// bootstrap tokens as credentials of the API, and the signatures by which such
// a machine knows that the cluster-info it was given is the cluster's.
//
// A token is a Secret in kube-system, of type bootstrap.kubernetes.io/token
// and named bootstrap-token-<id>. The words and rules are Kubernetes'.
//
// It watches nothing and owns nothing: it reads the cache at each use. What
// makes, signs and cleans such Secrets are controllers, which use its functions.
package bootstrap

import (
	"context"
	"crypto/subtle"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Config is everything Tokens needs.
type Config struct {
	Cache client.Cache
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Log tells, at debug level, why a token that has a Secret was refused.
	Log *slog.Logger
}

// Tokens checks bootstrap tokens.
type Tokens struct{ cfg Config }

var _ authenticator.Token = (*Tokens)(nil)

// New returns an authenticator of bootstrap tokens.
func New(cfg Config) *Tokens {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Tokens{cfg: cfg}
}

// AuthenticateToken says whom a token of the form "abcdef.0123456789abcdef"
// speaks for: user system:bootstrap:<id> in group system:bootstrappers and
// those that the Secret names. All else is not its business: never an error.
func (t *Tokens) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	if !bootstraputil.IsValidBootstrapToken(token) {
		return nil, false, nil
	}
	id, secret := token[:bootstrapapi.BootstrapTokenIDBytes], token[bootstrapapi.BootstrapTokenIDBytes+1:]
	s, ok := client.Cached[*corev1.Secret](t.cfg.Cache, schema.Key{Namespace: metav1.NamespaceSystem, Name: bootstrapapi.BootstrapTokenSecretPrefix + id})
	if !ok {
		return nil, false, nil
	}
	groups, refusal := t.check(s, id, secret)
	if refusal != "" {
		t.cfg.Log.Debug("bootstrap token refused", "secret", s.Name, "reason", refusal)
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: bootstrapapi.BootstrapUserPrefix + id, Groups: groups}}, true, nil
}

// check decides about a token's Secret. The text says why it is refused.
func (t *Tokens) check(s *corev1.Secret, id, secret string) (groups []string, refusal string) {
	switch {
	case s.DeletionTimestamp != nil:
		return nil, "is being deleted"
	case s.Type != bootstrapapi.SecretTypeBootstrapToken:
		return nil, "has another type"
	case subtle.ConstantTimeCompare(s.Data[bootstrapapi.BootstrapTokenSecretKey], []byte(secret)) != 1:
		return nil, "has another " + bootstrapapi.BootstrapTokenSecretKey
	case string(s.Data[bootstrapapi.BootstrapTokenIDKey]) != id:
		return nil, "has another " + bootstrapapi.BootstrapTokenIDKey
	case Expired(s, t.cfg.Now()):
		return nil, "has expired"
	case string(s.Data[bootstrapapi.BootstrapTokenUsageAuthentication]) != "true":
		return nil, "is not marked " + bootstrapapi.BootstrapTokenUsageAuthentication + "=true"
	}
	groups, err := Groups(s)
	if err != nil {
		return nil, err.Error()
	}
	return groups, ""
}
