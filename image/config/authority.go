package config

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"time"

	"cuelang.org/go/cue/ast"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// relateAuthority finds what keeps a certificate and a key from being the
// authority of a cluster. Whether it has expired is not said here: a machine may
// not know the time; see Expired.
func relateAuthority(w *walker, a Authority, e ast.Expr) {
	find := func(name, format string, args ...any) {
		w.find("Invalid", locate(e, "authority", name), "", format, args...)
	}
	cert := a.certificate()
	key, pair := a.pair()
	switch {
	case cert == nil:
		find("certificate", "must be one certificate in PEM form, which this is not")
	case !cert.IsCA || cert.KeyUsage != 0 && cert.KeyUsage&x509.KeyUsageCertSign == 0:
		find("certificate", "must be that of an authority (CA:TRUE, which may sign certificates)")
	case !ecdsaKey(cert.PublicKey):
		find("certificate", "must have an ECDSA key: 'openssl ecparam -name prime256v1 -genkey -noout' makes one")
	case !key:
		find("key", "must be a private key in PEM form (EC PRIVATE KEY or PRIVATE KEY), which this is not")
	case !pair:
		find("key", "is not the key of authority.certificate")
	}
}

func ecdsaKey(public any) bool {
	_, ok := public.(*ecdsa.PublicKey)
	return ok
}

// certificate is the one that there is; nil without.
func (a Authority) certificate() *x509.Certificate {
	block, rest := pem.Decode([]byte(a.Certificate))
	if block == nil || block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 {
		return nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return cert
}

// pair says whether the key is one, and the certificate's.
func (a Authority) pair() (key, pair bool) {
	block, _ := pem.Decode([]byte(a.Key))
	if block == nil {
		return false, false
	}
	var err error
	if block.Type == "EC PRIVATE KEY" {
		_, err = x509.ParseECPrivateKey(block.Bytes)
	} else {
		_, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return false, false
	}
	_, err = tls.X509KeyPair([]byte(a.Certificate), []byte(a.Key))
	return true, err == nil
}

// sameCertificate says that two files in PEM form begin with one certificate.
func sameCertificate(a, b []byte) bool {
	x, _ := pem.Decode(a)
	y, _ := pem.Decode(b)
	return x != nil && y != nil && bytes.Equal(x.Bytes, y.Bytes)
}

// Expired finds what has expired in a file that Parse takes.
func Expired(file string, data []byte, n Node, now time.Time) []v1alpha1.Finding {
	if n.Authority == nil {
		return nil
	}
	cert := n.Authority.certificate()
	if cert == nil || !now.After(cert.NotAfter) {
		return nil
	}
	w := &walker{file: file}
	at := place{path: "authority.certificate"}
	if f, err := extract(file, data); err == nil {
		if e, ok := document(f); ok {
			at = locate(e, "authority", "certificate")
		}
	}
	w.find("Invalid", at, "", "has expired on %s", cert.NotAfter.UTC().Format(time.DateOnly))
	return w.out
}

// WithAuthority adds an authority to the file of a first server. What people
// wrote stays as it is, line by line.
func WithAuthority(data []byte, a Authority) ([]byte, error) {
	var b bytes.Buffer
	b.Write(data)
	if len(data) > 0 && data[len(data)-1] != '\n' {
		b.WriteByte('\n')
	}
	before, findings := Parse(Name, b.Bytes())
	if len(findings) > 0 {
		return nil, errors.New("add the authority: the file has mistakes")
	}
	b.WriteString("authority:\n")
	for _, f := range []struct{ name, text string }{{"certificate", a.Certificate}, {"key", a.Key}} {
		fmt.Fprintf(&b, "  %s: |\n", f.name)
		for line := range strings.Lines(strings.TrimRight(f.text, "\n") + "\n") {
			b.WriteString("    " + line)
		}
	}
	after, findings := Parse(Name, b.Bytes())
	if len(findings) > 0 || after.Authority == nil {
		return nil, errors.New("add the authority: it cannot stand behind the last line: write the file in lines such as \"role: server\", without braces around them, and without \"...\" at its end")
	}
	after.Authority = before.Authority
	if !reflect.DeepEqual(before, after) {
		return nil, errors.New("add the authority: the last lines of the file would change their meaning: put another field, such as role, last")
	}
	return b.Bytes(), nil
}

// URL is where people reach a server, as far as its file says: externalURL, or
// an address of its own at the port on which it listens; "" when it says nothing.
func (n Node) URL() string {
	if u, err := url.Parse(n.ExternalURL); err == nil && u.Scheme == "https" {
		return n.ExternalURL
	}
	host, port, err := net.SplitHostPort(n.Listen)
	if err != nil {
		port = "6443"
	}
	if loopback(host) {
		return ""
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = ""
	}
	if host == "" {
		host = n.NodeIP
	}
	if host == "" {
		host = n.firstAddress()
	}
	if host == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port)
}

// firstAddress is the first that the file gives to an interface.
func (n Node) firstAddress() string {
	if n.Network == nil {
		return ""
	}
	for _, f := range n.Network.Interfaces {
		for _, a := range f.Addresses {
			if p, err := netip.ParsePrefix(a); err == nil {
				return p.Addr().String()
			}
		}
	}
	return ""
}
