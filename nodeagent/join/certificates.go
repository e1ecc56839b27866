package join

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	certificatesv1client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	certificatesv1beta1client "k8s.io/client-go/kubernetes/typed/certificates/v1beta1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate"
)

// open reads what is there of both certificates.
func (m *Member) open() (err error) {
	if m.client, err = m.manager(clientPair, certificatesv1.KubeAPIServerClientKubeletSignerName, m.clientRequest, certificate.DefaultKubeletClientGetUsages, m.asking); err != nil {
		return fmt.Errorf("open client certificate: %w", err)
	}
	if m.serving, err = m.manager(servingPair, certificatesv1.KubeletServingSignerName, m.servingRequest, certificate.DefaultKubeletServingGetUsages, m.asNode); err != nil {
		return fmt.Errorf("open serving certificate: %w", err)
	}
	return nil
}

func (m *Member) manager(pair, signer string, template func() *x509.CertificateRequest, usages func(any) []certificatesv1.KeyUsage, as certificate.ClientsetFunc) (certificate.Manager, error) {
	store, err := certificate.NewFileStore(pair, m.cfg.Dir, m.cfg.Dir, "", "")
	if err != nil {
		return nil, err
	}
	return certificate.NewManager(&certificate.Config{Name: pair, SignerName: signer, GetTemplate: template, GetUsages: usages, CertificateStore: store, ClientsetFn: as})
}

// asking is who asks for a client certificate: the node itself as long as it
// has one, and the bearer of the token before.
func (m *Member) asking(current *tls.Certificate) (kubernetes.Interface, error) {
	if current != nil {
		return m.asNode(current)
	}
	return clientset(&rest.Config{Host: m.cfg.Server, UserAgent: userAgent, BearerToken: m.cfg.Token, TLSClientConfig: rest.TLSClientConfig{CAFile: m.file(caFile)}})
}

func (m *Member) asNode(*tls.Certificate) (kubernetes.Interface, error) {
	return clientset(m.Client())
}

// certificatesOnly is the part of a clientset that a certificate manager calls.
// The whole of kubernetes.NewForConfig would keep 10 MB of typed clients in the
// binary.
type certificatesOnly struct {
	kubernetes.Interface // nil: nothing else is called

	v1      *certificatesv1client.CertificatesV1Client
	v1beta1 *certificatesv1beta1client.CertificatesV1beta1Client
}

func (c certificatesOnly) CertificatesV1() certificatesv1client.CertificatesV1Interface {
	return c.v1
}

// CertificatesV1beta1 is asked where a server does not know v1.
func (c certificatesOnly) CertificatesV1beta1() certificatesv1beta1client.CertificatesV1beta1Interface {
	return c.v1beta1
}

func clientset(cfg *rest.Config) (kubernetes.Interface, error) {
	v1, err := certificatesv1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	v1beta1, err := certificatesv1beta1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return certificatesOnly{v1: v1, v1beta1: v1beta1}, nil
}

func (m *Member) subject() pkix.Name {
	return pkix.Name{CommonName: "system:node:" + m.cfg.NodeName, Organization: []string{"system:nodes"}}
}

func (m *Member) clientRequest() *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: m.subject()}
}

func (m *Member) servingRequest() *x509.CertificateRequest {
	if m.client.Current() == nil {
		return nil // nobody could ask for it
	}
	r := &x509.CertificateRequest{Subject: m.subject(), DNSNames: []string{m.cfg.NodeName}}
	for _, h := range m.cfg.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			r.IPAddresses = append(r.IPAddresses, ip)
		}
	}
	return r
}
