package cluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/writ-os/writ/controlplane/auth"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/reload"
)

// ServingFiles are serving certificates of the operator's.
type ServingFiles struct {
	// CertFile and KeyFile are for all names but those of the cluster's parts.
	CertFile, KeyFile string
	// SNI are for certain names, or those in the certificate; the first that
	// fits is taken.
	SNI []cliflag.NamedCertKey
}

// watch reads files for the first time and follows them once the server runs.
func (p *ControlPlane) watch(ctx context.Context, name string, take func(context.Context, [][]byte) error, files ...string) error {
	w := reload.New(reload.Config{Name: name, Files: files, Take: take, Metrics: p.reloads, Log: p.log("auth")})
	if err := w.Load(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.followed = append(p.followed, w.Run)
	return nil
}

// follow takes over the operator's files when they change, until ctx ends.
func (p *ControlPlane) follow(ctx context.Context, g *errgroup.Group) {
	for _, run := range p.followed {
		g.Go(func() error { return run(ctx) })
	}
}

// openCAs reads whom clients and front proxies may be from.
func (p *ControlPlane) openCAs(ctx context.Context) error {
	p.clientCAs, p.proxyCAs = auth.NewCABundle(p.authority.CAPEM()), auth.NewCABundle(nil)
	if f := p.cfg.API.ClientCAFile; f != "" {
		if err := p.watch(ctx, "client_ca", p.takeClientCAs, f); err != nil {
			return err
		}
	}
	if f := p.cfg.API.FrontProxy.CAFile; f != "" {
		return p.watch(ctx, "requestheader_client_ca", p.proxyCAs.Take, f)
	}
	return nil
}

// takeClientCAs also tells aggregated API servers, once there is a store to
// tell them by.
func (p *ControlPlane) takeClientCAs(ctx context.Context, data [][]byte) error {
	if err := p.clientCAs.Take(ctx, data); err != nil {
		return err
	}
	select {
	case <-p.ready:
	default:
		return nil
	}
	extension, err := p.extensionAuthentication()
	if err != nil {
		return err
	}
	return reload.Later(p.ensure(ctx, p.as(identity.APIServer), extension))
}

// certificate picks what is served to whom; own is the cluster's.
func (p *ControlPlane) certificate(ctx context.Context, own auth.GetCertificate) (auth.GetCertificate, error) {
	var (
		primary *auth.CertificateFile
		sni     []*auth.CertificateFile
	)
	if f := p.cfg.API.TLS; f.CertFile != "" {
		primary = &auth.CertificateFile{}
		if err := p.watch(ctx, "serving_certificate", primary.Take, f.CertFile, f.KeyFile); err != nil {
			return nil, err
		}
	}
	for i, f := range p.cfg.API.TLS.SNI {
		c := &auth.CertificateFile{Names: f.Names}
		if err := p.watch(ctx, fmt.Sprintf("sni_certificate_%d", i), c.Take, f.CertFile, f.KeyFile); err != nil {
			return nil, err
		}
		sni = append(sni, c)
	}
	return auth.ServingCertificates(own, primary, sni), nil
}

// followAuthorization keeps the chain of authorizers in step with its file.
func (p *ControlPlane) followAuthorization(ctx context.Context, chain []auth.Member) error {
	a := p.cfg.API.Authorization
	if a.File == "" {
		return nil
	}
	return p.watch(ctx, "authorization_config", a.Follow(p.authz, chain, p.log("auth")), a.File)
}
