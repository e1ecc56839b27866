package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/writ-os/writ/cmd/writ/member"
)

// inStepWithin is how long a server looks for most of the others before it may be
// made the only one.
const inStepWithin = 5 * time.Second

// orderedReset makes this server the only one, if it was told to before it started
// again.
func (p *ControlPlane) orderedReset(ctx context.Context) error {
	r := member.Reset{DataDir: p.cfg.DataDir, Ask: peerTLS(p.cfg.DataDir).Ask, Confirm: func(member.Loss) error { return nil }, Now: time.Now(), Log: p.log("members")}
	return r.Ordered(ctx)
}

// resetServers is for a server that nobody can log in to: it runs, and has lost
// most of the others for good.
func (p *ControlPlane) resetServers(ctx context.Context, confirm string) (member.Loss, error) {
	if p.member == nil {
		return member.Loss{Name: p.cfg.NodeName, Dropped: []member.Lost{}}, nil
	}
	all, err := p.store.Members(ctx)
	if err != nil {
		return member.Loss{}, err
	}
	if len(all) == 1 {
		return member.Loss{Name: p.member.Name, Dropped: []member.Lost{}}, nil
	}
	look, cancel := context.WithTimeout(ctx, inStepWithin)
	defer cancel()
	if p.store.Current(look) == nil {
		return member.Loss{}, errors.New("most of the servers are there, and this one is in step with them: take those that are lost out with 'writ member remove'")
	}
	loss := member.Losses(ctx, p.member.Name, all, peerTLS(p.cfg.DataDir).Ask)
	if err := loss.Refuse(); err != nil || confirm == "" {
		return loss, err
	}
	if confirm != p.member.Name {
		return loss, fmt.Errorf("this server is %s, not %s: nothing has changed", p.member.Name, confirm)
	}
	if err := member.Order(p.cfg.DataDir); err != nil {
		return loss, err
	}
	p.startAgain()
	return loss, nil
}
