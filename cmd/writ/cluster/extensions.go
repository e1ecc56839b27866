package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/apiserver/aggregate"
	"github.com/writ-os/writ/controlplane/auth"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/bootstrap"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controllers"
	"github.com/writ-os/writ/controlplane/crd"
	"github.com/writ-os/writ/controlplane/endpoint"
	"github.com/writ-os/writ/nodeagent/metricsapi"
	"github.com/writ-os/writ/schema"
)

// frontProxyName is the common name under which this server calls others.
const frontProxyName = "front-proxy-client"

// resolve finds an endpoint of a Service.
func (p *ControlPlane) resolve(_ context.Context, namespace, name string, port int32) (string, error) {
	return endpoint.Resolve(p.registry.Cache(), namespace, name, port)
}

// newDefinitions is what serves custom resources.
func (p *ControlPlane) newDefinitions() *crd.Publisher {
	return crd.New(crd.Config{
		Client: p.as(identity.APIServer), Cache: p.registry.Cache(), Store: p.store, Catalog: &p.catalog,
		Webhooks: &crd.Webhooks{Resolve: p.resolve}, Log: p.log("definitions"),
	})
}

// newAggregator is what passes requests on to other API servers.
func (p *ControlPlane) newAggregator() *aggregate.Aggregator {
	return aggregate.New(aggregate.Config{
		Client: p.as(identity.APIServer), Cache: p.registry.Cache(), Catalog: &p.catalog, Priority: bootstrap.Priority,
		Certificate: p.frontProxyCertificate,
		Resolve: func(namespace, name string, port int32) (string, error) {
			return endpoint.Resolve(p.registry.Cache(), namespace, name, port)
		},
		InProcess: []aggregate.InProcess{{Resources: metricsapi.Resources(), Handler: p.top, GroupPriority: 100, VersionPriority: 100}},
		Log:       p.log("aggregator"),
	})
}

// newTop is what kubectl top asks: the nodes' figures.
func (p *ControlPlane) newTop() *metricsapi.API {
	return metricsapi.New(metricsapi.Config{
		Nodes: func() []*corev1.Node { return client.CachedList[*corev1.Node](p.registry.Cache(), "") },
		Pods:  func(ns string) []*corev1.Pod { return client.CachedList[*corev1.Pod](p.registry.Cache(), ns) },
		Fetch: metricsapi.Fetcher(&http.Client{Timeout: nodeTimeout, Transport: p.way.Nodes}),
		Log:   p.log("metrics"),
	})
}

// nodeTimeout bounds a question to a node.
const nodeTimeout = 10 * time.Second

// frontProxyCertificate is issued for each connection: it takes 0.1 ms, and
// nothing needs to be renewed.
func (p *ControlPlane) frontProxyCertificate() (*tls.Certificate, error) {
	pair, err := p.frontProxy.IssueClient(pki.Client{User: frontProxyName})
	if err != nil {
		return nil, err
	}
	c := pair.TLS()
	return &c, nil
}

// ground writes the objects that a cluster begins with, those that are missing,
// and brings those back into shape that must be as they are.
func (p *ControlPlane) ground(ctx context.Context) error {
	extension, err := p.extensionAuthentication()
	if err != nil {
		return err
	}
	return p.ensure(ctx, p.as(identity.APIServer), append(bootstrap.Objects(), bootstrap.ServiceCIDR(ServiceCIDR.String()), extension)...)
}

// extensionAuthentication says to aggregated API servers whom they may trust.
func (p *ControlPlane) extensionAuthentication() (*corev1.ConfigMap, error) {
	return auth.ExtensionAuthentication(p.clientCAs.CAPEM(), p.frontProxy.CAPEM(), auth.DefaultFrontProxy(p.frontProxy, frontProxyName))
}

// ensure writes those of the objects that are missing or not as they have to be.
func (p *ControlPlane) ensure(ctx context.Context, c *client.LocalClient, objects ...schema.Object) error {
	var ops []client.Op
	for _, o := range objects {
		r := schema.ResourceOf(o)
		op := client.Op{Verb: client.VerbCreate, Resource: r, Key: schema.KeyOf(o), Object: o, FieldManager: "writ-bootstrap"}
		have, err := c.Get(ctx, r, schema.KeyOf(o))
		switch {
		case apierrors.IsNotFound(err):
			ops = append(ops, op)
		case err != nil:
			return fmt.Errorf("get %s %s: %w", r, schema.KeyOf(o), err)
		case bootstrap.Outdated(have, o):
			op.Verb, op.ResourceVersion = client.VerbUpdate, have.GetResourceVersion()
			ops = append(ops, op)
		}
	}
	if len(ops) == 0 {
		return nil
	}
	_, err := c.Transact(ctx, ops, false)
	return err
}

// certificates is the authority as the controllers of requests need it.
func (p *ControlPlane) certificates() controllers.Certificates {
	return controllers.Certificates{Sign: p.authority.SignRequest, Node: pki.NodeClient, Allowed: p.mayRequest, Serving: pki.NodeServing,
		Barred: p.barredHost, Reserved: identity.ReservedNode, Server: p.isServer}
}

// mayRequest says whether the asker of a certificate may create requests that
// are approved by themselves.
func (p *ControlPlane) mayRequest(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, sub string) (bool, error) {
	extra := map[string][]string{}
	for k, v := range csr.Spec.Extra {
		extra[k] = v
	}
	d, _, err := p.authz.Authorize(ctx, authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: csr.Spec.Username, UID: csr.Spec.UID, Groups: csr.Spec.Groups, Extra: extra},
		Verb: "create", APIGroup: certificatesv1.GroupName, APIVersion: "v1", Resource: "certificatesigningrequests", Subresource: sub, ResourceRequest: true,
	})
	return d == authorizer.DecisionAllow, err
}
