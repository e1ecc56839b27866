package image

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Endpoint is how one host, a registry or a mirror, is asked: whom to believe,
// and what to show. It never changes: another one says that something did.
type Endpoint struct {
	// Authorities that its certificate may be from; nil are those of the machine.
	Authorities *x509.CertPool
	// Certificate is shown where the host asks for one; nil is none.
	Certificate *tls.Certificate
	keys        *Keyring
}

// NewEndpoint reads what is declared of a host: authorities in PEM that are
// believed beside those of the machine, and a Secret with credentials, a client
// certificate or both. Each may be missing. Errors tell nothing of what is
// secret.
func NewEndpoint(host, ca string, secret *corev1.Secret) (*Endpoint, error) {
	e := &Endpoint{}
	if ca != "" {
		certs, err := v1alpha1.Certificates(ca)
		if err != nil {
			return nil, fmt.Errorf("its ca %w", err)
		}
		if e.Authorities, err = x509.SystemCertPool(); err != nil {
			return nil, fmt.Errorf("read the machine's authorities: %w", err)
		}
		for _, c := range certs {
			e.Authorities.AddCert(c)
		}
	}
	if secret == nil {
		return e, nil
	}
	if err := e.show(host, secret); err != nil {
		return nil, fmt.Errorf("secret %s/%s %w", secret.Namespace, secret.Name, err)
	}
	return e, nil
}

// show takes over what a Secret has.
func (e *Endpoint) show(host string, secret *corev1.Secret) error {
	has := func(key string) bool { return len(secret.Data[key]) > 0 }
	const user, password = corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey
	switch {
	case has(corev1.DockerConfigJsonKey):
		typed := *secret
		typed.Type = corev1.SecretTypeDockerConfigJson
		keys, err := NewKeyring([]*corev1.Secret{&typed})
		if err != nil {
			return errors.New("has a " + corev1.DockerConfigJsonKey + " that cannot be read")
		}
		if e.keys = keys.of(host); len(e.keys.entries) == 0 {
			return errors.New("names no credentials of " + host)
		}
	case has(user) && has(password):
		e.keys = &Keyring{entries: []keyringEntry{{host: host, creds: Credentials{string(secret.Data[user]), string(secret.Data[password])}}}}
	case has(user) != has(password):
		return fmt.Errorf("has only one of %s and %s", user, password)
	}
	switch {
	case has(corev1.TLSCertKey) && has(corev1.TLSPrivateKeyKey):
		pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		if err != nil {
			return fmt.Errorf("has no pair of certificate and key: %w", err)
		}
		e.Certificate = &pair
	case has(corev1.TLSCertKey) != has(corev1.TLSPrivateKeyKey):
		return fmt.Errorf("has only one of %s and %s", corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	case e.keys == nil:
		return fmt.Errorf("has none of %s, %s and %s, %s and %s", corev1.DockerConfigJsonKey, user, password, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return nil
}

// TLS says that something is declared of how the host is known, so that it is
// asked by HTTPS wherever it is.
func (e *Endpoint) TLS() bool { return e != nil && (e.Authorities != nil || e.Certificate != nil) }

// Credentials to try for a reference at the host, best first.
func (e *Endpoint) Credentials(ref string) []Credentials {
	if e == nil || e.keys == nil {
		return nil
	}
	return e.keys.For(ref)
}
