package join

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
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
	return kubernetes.NewForConfig(&rest.Config{Host: m.cfg.Server, UserAgent: userAgent, BearerToken: m.cfg.Token, TLSClientConfig: rest.TLSClientConfig{CAFile: m.file(caFile)}})
}

func (m *Member) asNode(*tls.Certificate) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(m.Client())
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
