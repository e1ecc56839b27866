package bootstrap

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
)

// Where cluster-info lies: everybody may read it, and it is believed for its
// signatures.
const (
	ClusterInfoNamespace = "kube-public"
	ClusterInfoName      = bootstrapapi.ConfigMapClusterInfo
)

// Signed returns cluster-info with one signature for each live bootstrap token
// that is marked usage-bootstrap-signing, and without those of others. changed
// says whether it is worth a write. The ConfigMap is not changed.
//
// A signature is a detached JWS (RFC 7515, HS256) of the kubeconfig by the
// token's secret, under the key jws-kubeconfig-<id>.
func Signed(info *corev1.ConfigMap, secrets []*corev1.Secret, now time.Time) (next *corev1.ConfigMap, changed bool, err error) {
	content, ok := info.Data[bootstrapapi.KubeConfigKey]
	if !ok {
		return info, false, fmt.Errorf("sign %s/%s: no %q key in it", info.Namespace, info.Name, bootstrapapi.KubeConfigKey)
	}
	next = info.DeepCopy()
	maps.DeleteFunc(next.Data, func(k, _ string) bool { return strings.HasPrefix(k, bootstrapapi.JWSSignatureKeyPrefix) })
	for _, s := range secrets {
		id, secret, ok := signing(s, now)
		if !ok {
			continue
		}
		signature, err := jws.ComputeDetachedSignature(content, id, secret)
		if err != nil {
			return info, false, fmt.Errorf("sign %s/%s with token %s: %w", info.Namespace, info.Name, id, err)
		}
		next.Data[bootstrapapi.JWSSignatureKeyPrefix+id] = signature
	}
	return next, !maps.Equal(next.Data, info.Data), nil
}

// signing returns id and secret of a token that may sign.
func signing(s *corev1.Secret, now time.Time) (id, secret string, ok bool) {
	id, secret = string(s.Data[bootstrapapi.BootstrapTokenIDKey]), string(s.Data[bootstrapapi.BootstrapTokenSecretKey])
	ok = s.Type == bootstrapapi.SecretTypeBootstrapToken && s.DeletionTimestamp == nil &&
		s.Name == bootstrapapi.BootstrapTokenSecretPrefix+id && id != "" && secret != "" &&
		string(s.Data[bootstrapapi.BootstrapTokenUsageSigningKey]) == "true" && !Expired(s, now)
	return id, secret, ok
}

// Verify returns the kubeconfig of a cluster-info that a token has signed: what
// a joining machine does before it believes it.
func Verify(info *corev1.ConfigMap, token string) (string, error) {
	id, secret, _ := strings.Cut(token, ".")
	content, signature := info.Data[bootstrapapi.KubeConfigKey], info.Data[bootstrapapi.JWSSignatureKeyPrefix+id]
	switch {
	case id == "" || secret == "":
		return "", fmt.Errorf("verify cluster-info: a bootstrap token has the form abcdef.0123456789abcdef")
	case signature == "":
		return "", fmt.Errorf("verify cluster-info: no signature of token %s: it has expired, or its Secret is not marked %s", id, bootstrapapi.BootstrapTokenUsageSigningKey)
	case !jws.DetachedTokenIsValid(signature, content, id, secret):
		return "", fmt.Errorf("verify cluster-info: the signature of token %s does not fit: the answer is not from the cluster that the token is for", id)
	}
	return content, nil
}
