package auth

import (
	"crypto/tls"
	"crypto/x509"
)

// TLSConfig returns the configuration of a server that the Authenticator
// works behind. Clients are asked for a certificate and need not have one; a
// wrong one is answered with 401 and not with a failed handshake.
func TLSConfig(pool *x509.CertPool, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		ClientAuth:     tls.RequestClientCert,
		ClientCAs:      pool,
		GetCertificate: certificate,
		NextProtos:     []string{"h2", "http/1.1"},
	}
}
