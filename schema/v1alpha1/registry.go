package v1alpha1

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Certificates reads certificates in PEM, of which there is one at least.
func Certificates(text string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if len(strings.TrimSpace(string(rest))) > 0 {
				return nil, errors.New("has something that is no PEM")
			}
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("has a %s, which does not belong here", strings.ToLower(block.Type))
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("has a certificate that cannot be read: %w", err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("has no certificate")
	}
	return out, nil
}

// MirrorHost is the host of a mirror's URL as registries are declared by it: with
// its port, unless that goes without saying. "" where the URL cannot be read.
func MirrorHost(mirror string) string {
	u, err := url.Parse(mirror)
	if err != nil {
		return ""
	}
	if u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80" {
		return strings.TrimSuffix(u.Host, ":"+u.Port())
	}
	return u.Host
}
