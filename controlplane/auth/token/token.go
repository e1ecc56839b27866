// Package token issues and checks service-account tokens: JWTs, signed with
// the cluster's ES256 key, with Kubernetes' claims and bound to the pod, secret
// or node that they were issued for.
//
// It watches nothing and owns nothing. Whether a token is still good is asked
// of the cache at each use: a token dies with the service account, pod, secret
// or node it names.
package token

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/writ-os/writ/controlplane/client"
)

// Config is everything the authority needs.
type Config struct {
	// Key signs and verifies tokens.
	Key *ecdsa.PrivateKey
	// Issuer is the iss claim. Default
	// "https://kubernetes.default.svc.cluster.local".
	Issuer string
	// Audiences are those of the API server. Default: the issuer.
	Audiences []string
	// Cache tells whether what a token is bound to still exists.
	Cache client.Cache
	// Labels writes into Secrets when their token was used last. nil does not.
	Labels client.Writer
	// Log says when that did not work. Default: nowhere.
	Log *slog.Logger
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Authority issues tokens and checks them. It is safe for concurrent use.
type Authority struct {
	cfg    Config
	keyID  string
	parser *jwt.Parser
	seen   seen
	// labelling holds the UIDs of Secrets whose label is being written.
	labelling sync.Map
}

// New returns an authority.
func New(cfg Config) (*Authority, error) {
	if cfg.Issuer == "" {
		cfg.Issuer = "https://kubernetes.default.svc.cluster.local"
	}
	if len(cfg.Audiences) == 0 {
		cfg.Audiences = []string{cfg.Issuer}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	der, err := x509.MarshalPKIXPublicKey(&cfg.Key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("encode public key of tokens: %w", err)
	}
	sum := sha256.Sum256(der)
	return &Authority{
		cfg:   cfg,
		keyID: base64.RawURLEncoding.EncodeToString(sum[:]),
		// Times are checked by validate, which knows upstream's words for it.
		parser: jwt.NewParser(jwt.WithValidMethods([]string{"ES256"}), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding()),
	}, nil
}

// verifyKey tells the parser which key signs.
func (a *Authority) verifyKey(*jwt.Token) (any, error) { return &a.cfg.Key.PublicKey, nil }

// Audiences returns the audiences of the API server.
func (a *Authority) Audiences() []string { return a.cfg.Audiences }

// claims are those of upstream's service-account tokens.
type claims struct {
	jwt.RegisteredClaims
	Kubernetes kubernetesClaims `json:"kubernetes.io"`
}

type kubernetesClaims struct {
	Namespace      string           `json:"namespace,omitempty"`
	Node           *ref             `json:"node,omitempty"`
	Pod            *ref             `json:"pod,omitempty"`
	Secret         *ref             `json:"secret,omitempty"`
	ServiceAccount ref              `json:"serviceaccount,omitempty"`
	WarnAfter      *jwt.NumericDate `json:"warnafter,omitempty"`
}

type ref struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}
