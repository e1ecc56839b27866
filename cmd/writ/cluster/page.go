package cluster

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/reconciler/page"
	"github.com/writ-os/writ/schema"
)

// pages makes the web page: what a viewer sees there is what kubectl would
// show to them.
func (p *ControlPlane) pages() []apiserver.Mount {
	p.page = page.New(page.Config{Cache: p.registry.Cache(), Catalog: &p.catalog, Authorize: p.maySee, Version: p.cfg.Version, Log: p.log("page")})
	return []apiserver.Mount{{Prefix: page.Prefix, Handler: p.page, Audited: true}, {Prefix: "/ui", Handler: p.page, Audited: true}}
}

func (p *ControlPlane) maySee(ctx context.Context, u user.Info, verb string, r *schema.Resource, namespace, name string) bool {
	d, _, err := p.authz.Authorize(ctx, authorizer.AttributesRecord{User: u, Verb: verb, APIGroup: r.Group, APIVersion: r.Version,
		Resource: r.Plural, Namespace: namespace, Name: name, ResourceRequest: true})
	return err == nil && d == authorizer.DecisionAllow
}
