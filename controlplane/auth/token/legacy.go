package token

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

const (
	// LegacyIssuer is the iss claim of tokens that lie in Secrets.
	LegacyIssuer = "kubernetes/serviceaccount"
	// LastUsedLabel is the day on which such a token was used last.
	LastUsedLabel = "kubernetes.io/legacy-token-last-used"
	// InvalidSinceLabel marks a Secret whose token is not accepted any more.
	InvalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
	// labelPatience bounds the write of LastUsedLabel.
	labelPatience = 5 * time.Second
)

// legacyClaims are those of a token in a Secret of type
// kubernetes.io/service-account-token: it never expires, and lives as long as
// the Secret.
type legacyClaims struct {
	jwt.RegisteredClaims
	Namespace      string `json:"kubernetes.io/serviceaccount/namespace"`
	Secret         string `json:"kubernetes.io/serviceaccount/secret.name"`
	ServiceAccount string `json:"kubernetes.io/serviceaccount/service-account.name"`
	UID            string `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

// Legacy returns the token for a Secret of type
// kubernetes.io/service-account-token: what the token controller writes into it.
func (a *Authority) Legacy(sa *corev1.ServiceAccount, secret string) (string, error) {
	t := jwt.NewWithClaims(jwt.SigningMethodES256, &legacyClaims{
		RegisteredClaims: jwt.RegisteredClaims{Issuer: LegacyIssuer, Subject: serviceaccount.MakeUsername(sa.Namespace, sa.Name)},
		Namespace:        sa.Namespace, Secret: secret, ServiceAccount: sa.Name, UID: string(sa.UID),
	})
	t.Header["kid"] = a.keyID
	delete(t.Header, "typ")
	s, err := t.SignedString(a.cfg.Key)
	if err != nil {
		return "", fmt.Errorf("sign token of %s/%s for secret %s: %w", sa.Namespace, sa.Name, secret, err)
	}
	return s, nil
}

// authenticateLegacy checks a token in a Secret against the live Secret.
func (a *Authority) authenticateLegacy(token string) (user.Info, error) {
	c := new(legacyClaims)
	if _, err := a.parser.ParseWithClaims(token, c, a.verifyKey); err != nil {
		return nil, fmt.Errorf("verify service account token: %w", err)
	}
	if err := c.complete(); err != nil {
		return nil, err
	}
	secret, ok := client.Cached[*corev1.Secret](a.cfg.Cache, schema.Key{Namespace: c.Namespace, Name: c.Secret})
	if !ok || secret.DeletionTimestamp != nil {
		return nil, errors.New("Token has been invalidated") //nolint:staticcheck // upstream's words
	}
	if subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)) == 0 {
		return nil, errors.New("Token does not match server's copy") //nolint:staticcheck // upstream's words
	}
	sa, ok := client.Cached[*corev1.ServiceAccount](a.cfg.Cache, schema.Key{Namespace: c.Namespace, Name: c.ServiceAccount})
	switch {
	case !ok:
		return nil, fmt.Errorf("serviceaccounts %q not found", c.ServiceAccount)
	case sa.DeletionTimestamp != nil:
		return nil, fmt.Errorf("ServiceAccount %s/%s has been deleted", c.Namespace, c.ServiceAccount) //nolint:staticcheck // upstream's words
	case string(sa.UID) != c.UID:
		return nil, fmt.Errorf("ServiceAccount UID (%s) does not match claim (%s)", sa.UID, c.UID) //nolint:staticcheck // upstream's words
	}
	a.used(secret)
	if secret.Labels[InvalidSinceLabel] != "" {
		return nil, fmt.Errorf("the token in secret %s/%s for service account %s/%s has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '%s' label from the secret to temporarily allow use of this token",
			c.Namespace, c.Secret, c.Namespace, c.ServiceAccount, InvalidSinceLabel)
	}
	return (&serviceaccount.ServiceAccountInfo{Namespace: c.Namespace, Name: c.ServiceAccount, UID: c.UID}).UserInfo(), nil
}

func (c *legacyClaims) complete() error {
	for _, f := range []struct{ name, value string }{
		{"sub", c.Subject}, {"namespace", c.Namespace}, {"secretName", c.Secret},
		{"serviceAccountName", c.ServiceAccount}, {"serviceAccountUID", c.UID},
	} {
		if f.value == "" {
			return fmt.Errorf("%s claim is missing", f.name)
		}
	}
	if c.Subject != serviceaccount.MakeUsername(c.Namespace, c.ServiceAccount) {
		return errors.New("sub claim is invalid")
	}
	return nil
}

// used writes the day of use into the Secret's label, once a day. The request
// does not fail with it: the label only tells which Secrets nobody needs.
func (a *Authority) used(secret *corev1.Secret) {
	today := a.cfg.Now().UTC()
	last := secret.Labels[LastUsedLabel]
	if a.cfg.Labels == nil || last == today.Format(time.DateOnly) || last == today.AddDate(0, 0, 1).Format(time.DateOnly) {
		return
	}
	if _, busy := a.labelling.LoadOrStore(secret.UID, true); busy {
		return // another request with this token does it
	}
	defer a.labelling.Delete(secret.UID)
	ctx, cancel := context.WithTimeout(context.Background(), labelPatience)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": secret.UID, "labels": map[string]string{LastUsedLabel: today.Format(time.DateOnly)}}})
	if err == nil {
		_, err = a.cfg.Labels.Patch(ctx, schema.ResourceFor[*corev1.Secret](), schema.KeyOf(secret), types.MergePatchType, patch, client.WriteOptions{})
	}
	if err != nil {
		a.cfg.Log.Error("last use of a token not recorded", "secret", schema.KeyOf(secret), "err", err)
	}
}
