package members

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// KeepOut takes servers out of the cluster that have left it for good, and the
// leases of those that were taken out, while this server leads.
func (r *Roll) KeepOut(ctx context.Context, events *client.Recorder) error {
	wake := make(chan struct{}, 1)
	err := r.cfg.Cache.Subscribe(ctx, schema.ResourceFor[*corev1.Node](), func(ev client.Event) {
		if ev.Type == client.Deleted {
			nudge(wake)
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe to nodes: %w", err)
	}
	for said := ""; ; {
		why := ""
		if err := r.keepOutOnce(ctx, events); err != nil && ctx.Err() == nil {
			if why = err.Error(); why != said {
				r.cfg.Log.Warn("a server that has left is not removed yet", "err", err)
			}
		}
		said = why
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-time.After(PresenceRenew):
		}
	}
}

func (r *Roll) keepOutOnce(ctx context.Context, events *client.Recorder) error {
	all, err := r.cfg.Store.Members(ctx)
	if err != nil {
		return err
	}
	there := r.Presences()
	known := map[string]bool{}
	var seen []Sighting
	for _, m := range all {
		at := there[m.Name]
		_, has := client.Cached[*corev1.Node](r.cfg.Cache, schema.Key{Name: m.Name})
		known[m.Name] = true
		seen = append(seen, Sighting{Member: m, Live: at.Live || m.Self, HadNode: at.node != "", HasNode: has})
	}
	for name, at := range there {
		if !known[name] && !at.Live {
			if err := r.Forget(ctx, name); err != nil {
				return err
			}
		}
	}
	gone, ok := Departed(seen)
	if !ok {
		return nil
	}
	if err := r.Remove(ctx, gone); err != nil {
		return fmt.Errorf("remove %s: %w", gone.Name, err)
	}
	r.cfg.Log.Warn("a server is removed: its Node was deleted, and it does not answer", "name", gone.Name, "member", gone.ID.String(), "url", gone.URL)
	events.EventAbout(corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: gone.Name, UID: types.UID(there[gone.Name].node)}, corev1.EventTypeNormal, "ServerRemoved",
		fmt.Sprintf("Server %s is one of the cluster no more: its Node was deleted, and it does not answer. It joins again with an empty data directory", gone.Name))
	return nil
}

// Remove takes a server out of the cluster, which is not this one.
func (r *Roll) Remove(ctx context.Context, m store.Member) error {
	if err := r.cfg.Store.RemoveMember(ctx, m.ID); err != nil {
		return err
	}
	return r.Forget(ctx, m.Name)
}

// nudge wakes who waits, who looks at everything.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
