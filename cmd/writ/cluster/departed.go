package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/cmd/writ/member"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// presenceNode is the UID of the Node of a server's machine, on its lease: when
// that Node is gone the server has left, if it does not answer.
const presenceNode = "writ.dev/node"

// ownNode is the UID of the Node of this machine, or of the one that it was while
// this process runs; "" when it never was one.
func (p *ControlPlane) ownNode(had string) string {
	if n, ok := client.Cached[*corev1.Node](p.registry.Cache(), schema.Key{Name: p.member.Name}); ok {
		return string(n.UID)
	}
	return had
}

// keepMembers takes servers out of the cluster that have left it for good, and
// the leases of those that were taken out, while this server leads.
func (p *ControlPlane) keepMembers(ctx context.Context, events *client.Recorder) error {
	wake := make(chan struct{}, 1)
	err := p.registry.Cache().Subscribe(ctx, schema.ResourceFor[*corev1.Node](), func(ev client.Event) {
		if ev.Type == client.Deleted {
			nudge(wake)
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe to nodes: %w", err)
	}
	for said := ""; ; {
		why := ""
		if err := p.membersOnce(ctx, events); err != nil && ctx.Err() == nil {
			if why = err.Error(); why != said {
				p.log("members").Warn("a server that has left is not removed yet", "err", err)
			}
		}
		said = why
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-time.After(presenceRenew):
		}
	}
}

func (p *ControlPlane) membersOnce(ctx context.Context, events *client.Recorder) error {
	all, err := p.store.Members(ctx)
	if err != nil {
		return err
	}
	there := p.presences.all(p.registry.Cache(), time.Now())
	known := map[string]bool{}
	var seen []member.Sighting
	for _, m := range all {
		at := there[m.Name]
		_, has := client.Cached[*corev1.Node](p.registry.Cache(), schema.Key{Name: m.Name})
		known[m.Name] = true
		seen = append(seen, member.Sighting{Member: m, Live: at.live || m.Self, HadNode: at.node != "", HasNode: has})
	}
	for name, at := range there {
		if !known[name] && !at.live {
			if err := p.forgetPresence(ctx, name); err != nil {
				return err
			}
		}
	}
	gone, ok := member.Departed(seen)
	if !ok {
		return nil
	}
	if err := p.removeServer(ctx, gone.ID.String()); err != nil {
		return fmt.Errorf("remove %s: %w", gone.Name, err)
	}
	p.log("members").Warn("a server is removed: its Node was deleted, and it does not answer", "name", gone.Name, "member", gone.ID.String(), "url", gone.URL)
	events.EventAbout(corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: gone.Name, UID: types.UID(there[gone.Name].node)}, corev1.EventTypeNormal, "ServerRemoved",
		fmt.Sprintf("Server %s is one of the cluster no more: its Node was deleted, and it does not answer. It joins again with an empty data directory", gone.Name))
	return nil
}
