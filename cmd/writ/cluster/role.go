package cluster

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/members"
	"github.com/writ-os/writ/schema"
)

// endpoints are where pods reach API servers: at this one when it is alone, and
// at all that are there.
func (p *ControlPlane) endpoints() []netip.AddrPort { return p.roll.Endpoints(p.advertised()) }

// serverURLs are where machines reach the API servers that are there; nil alone.
func (p *ControlPlane) serverURLs() []string {
	if p.member == nil {
		return nil
	}
	var urls []string
	for _, at := range p.endpoints() {
		urls = append(urls, "https://"+at.String())
	}
	return urls
}

// endpointsAgain is how often the endpoints are looked at: leases that are not
// renewed are no events. 0: never.
func (p *ControlPlane) endpointsAgain() time.Duration {
	if p.member == nil {
		return 0
	}
	return members.PresenceRenew
}

const controlPlaneRole = "node-role.kubernetes.io/control-plane"

// keepRole has the Node of this machine say that it is a server's. A node may
// not say so of itself.
func (p *ControlPlane) keepRole(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	err := p.registry.Cache().Subscribe(ctx, schema.ResourceFor[*corev1.Node](), func(ev client.Event) {
		if ev.Object != nil && ev.Object.GetName() == p.cfg.NodeName {
			if _, has := ev.Object.GetLabels()[controlPlaneRole]; !has {
				nudge(wake)
			}
		}
	})
	if err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"labels":{"` + controlPlaneRole + `":""}}}`)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
		_, err := p.as(identity.APIServer).Patch(ctx, schema.ResourceFor[*corev1.Node](), schema.Key{Name: p.cfg.NodeName}, types.MergePatchType, patch, client.WriteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			p.log("members").Warn("the node of this server is not marked as one", "err", err)
		}
	}
}
