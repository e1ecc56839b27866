package join

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/http"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	certificatesv1client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	certificatesv1beta1client "k8s.io/client-go/kubernetes/typed/certificates/v1beta1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate"
)

// open begins with what is there of both certificates.
func (m *Member) open() error {
	client, err := m.manager(clientPair, certificatesv1.KubeAPIServerClientKubeletSignerName, m.clientRequest, certificate.DefaultKubeletClientGetUsages, m.asking)
	if err != nil {
		return fmt.Errorf("open client certificate: %w", err)
	}
	serving, err := m.manager(servingPair, certificatesv1.KubeletServingSignerName, m.servingRequest, certificate.DefaultKubeletServingGetUsages, m.asNode)
	if err != nil {
		return fmt.Errorf("open serving certificate: %w", err)
	}
	m.mu.Lock()
	oldClient, oldServing := m.client, m.serving
	m.client, m.serving = client, serving
	m.mu.Unlock()
	for _, old := range []certificate.Manager{oldClient, oldServing} {
		if old != nil {
			old.Stop()
		}
	}
	client.Start()
	serving.Start()
	return nil
}

// pairs are the managers of both certificates; nil before they were opened.
func (m *Member) pairs() (client, serving certificate.Manager) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.client, m.serving
}

func (m *Member) manager(pair, signer string, template func() *x509.CertificateRequest, usages func(any) []certificatesv1.KeyUsage, as certificate.ClientsetFunc) (certificate.Manager, error) {
	if err := m.setAside(pair); err != nil {
		return nil, err
	}
	store, err := certificate.NewFileStore(pair, m.cfg.Dir, m.cfg.Dir, "", "")
	if err != nil {
		return nil, err
	}
	keep := keeping{store, m.cfg.Dir, pair, &m.why}
	return certificate.NewManager(&certificate.Config{Name: pair, SignerName: signer, GetTemplate: template, GetUsages: usages, CertificateStore: keep, ClientsetFn: as})
}

// asking is who asks for a client certificate: the node itself as long as it
// has one, and the bearer of the token before.
func (m *Member) asking(current *tls.Certificate) (kubernetes.Interface, error) {
	if current != nil {
		return m.asNode(current)
	}
	return clientset(&rest.Config{Host: m.cfg.Server, UserAgent: userAgent, BearerToken: m.cfg.Token, TLSClientConfig: rest.TLSClientConfig{CAFile: m.file(caFile)},
		WrapTransport: func(rt http.RoundTripper) http.RoundTripper { return asked{rt, m} }})
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
	if client, _ := m.pairs(); client == nil || client.Current() == nil {
		return nil // nobody could ask for it
	}
	r := &x509.CertificateRequest{Subject: m.subject(), DNSNames: []string{m.cfg.NodeName}}
	for _, h := range m.hosts() {
		if ip := net.ParseIP(h); ip != nil {
			r.IPAddresses = append(r.IPAddresses, ip)
		}
	}
	return r
}

// hosts are the addresses that are asked for: those of this machine that are no
// server's. No certificate is signed for one of those, and it needs none: the
// server knows its nodes by name.
func (m *Member) hosts() []string {
	taken := map[string]bool{}
	for _, at := range m.servers.snapshot() {
		host, _, err := net.SplitHostPort(at)
		if err != nil {
			continue
		}
		if ip := net.ParseIP(host); host == "localhost" || ip.IsLoopback() {
			return nil // the server is on this machine
		}
		taken[host] = true
	}
	var out []string
	for _, h := range m.cfg.Hosts {
		if !taken[h] {
			out = append(out, h)
		}
	}
	return out
}
