package cluster

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/policy"
)

// lay writes what the cluster stands on into the store.
func (p *ControlPlane) lay(ctx context.Context) error {
	if err := policy.Ensure(ctx, p.as(identity.APIServer)); err != nil {
		return fmt.Errorf("write the cluster's own objects: %w", err)
	}
	if err := p.ground(ctx); err != nil {
		return fmt.Errorf("write the cluster's own objects: %w", err)
	}
	return p.seedToken(ctx)
}

// layWhenReadable is lay, later when there are values that this server cannot
// read: it serves what it can meanwhile, and says what is missing.
func (p *ControlPlane) layWhenReadable(ctx context.Context, g *errgroup.Group) error {
	err := p.store.Unreadable()
	if err == nil {
		return p.lay(ctx)
	}
	p.cfg.step("store", err.Error())
	p.log("store").Error("this server does not lead and is not ready: there are values that it cannot read", "err", err)
	g.Go(func() error {
		look := time.NewTicker(time.Second)
		defer look.Stop()
		for p.store.Unreadable() != nil {
			select {
			case <-look.C:
			case <-ctx.Done():
				return nil
			}
		}
		return p.lay(ctx)
	})
	return nil
}
