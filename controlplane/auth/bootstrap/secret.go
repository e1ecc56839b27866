package bootstrap

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
)

// TTL is how long a token is good for when nobody says.
const TTL = 24 * time.Hour

// NewSecret is the Secret of a token of the form abcdef.0123456789abcdef, by
// which machines of a group join: it is a credential, and vouches for
// cluster-info. The zero time is never.
func NewSecret(token, group, description string, expires time.Time) *corev1.Secret {
	id, secret, _ := strings.Cut(token, ".")
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstraputil.BootstrapTokenSecretName(id)},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			bootstrapapi.BootstrapTokenIDKey:               []byte(id),
			bootstrapapi.BootstrapTokenSecretKey:           []byte(secret),
			bootstrapapi.BootstrapTokenUsageAuthentication: []byte("true"),
			bootstrapapi.BootstrapTokenUsageSigningKey:     []byte("true"),
			bootstrapapi.BootstrapTokenExtraGroupsKey:      []byte(group),
		},
	}
	if !expires.IsZero() {
		s.Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(expires.UTC().Format(time.RFC3339))
	}
	if description != "" {
		s.Data[bootstrapapi.BootstrapTokenDescriptionKey] = []byte(description)
	}
	return s
}

// Expired says whether a bootstrap token is over: its expiration, in RFC 3339,
// has passed or cannot be read. One without an expiration never is.
func Expired(s *corev1.Secret, now time.Time) bool {
	text := string(s.Data[bootstrapapi.BootstrapTokenExpirationKey])
	if text == "" {
		return false
	}
	t, err := time.Parse(time.RFC3339, text)
	return err != nil || !now.Before(t)
}

// Groups returns the groups that a token gives, sorted: system:bootstrappers
// and its auth-extra-groups.
func Groups(s *corev1.Secret) ([]string, error) {
	groups := []string{bootstrapapi.BootstrapDefaultGroup}
	extra := string(s.Data[bootstrapapi.BootstrapTokenExtraGroupsKey])
	if extra == "" {
		return groups, nil
	}
	for g := range strings.SplitSeq(extra, ",") {
		if err := bootstraputil.ValidateBootstrapGroupName(g); err != nil {
			return nil, fmt.Errorf("read %s: %w", bootstrapapi.BootstrapTokenExtraGroupsKey, err)
		}
		groups = append(groups, g)
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}
