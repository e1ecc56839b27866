package cluster

import (
	"context"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/members"
	"github.com/writ-os/writ/reconciler/receive"
)

// openRemote makes the built-in remote, for as long as the process runs, and its
// replica where there are several servers. What it asks about pushes is asked of
// whatever leads.
func (p *ControlPlane) openRemote() {
	c := p.as(identity.Reconciler)
	cfg := receive.Config{Dir: p.cfg.file("git"), Names: []string{RepositoryName}, Branch: p.cfg.Repository.branch(),
		Rules:       func(string) []receive.Rule { return pushRules(c.Cache()) },
		MayFetch:    p.mayFetch,
		Credentials: opener{client: c}.auth,
		Mirrored: func() {
			if git := p.git.Load(); git != nil {
				nudge(git.mirrors.wake)
			}
		},
		Check: func(ctx context.Context, push receive.Push) ([]string, error) {
			git := p.git.Load()
			if git == nil {
				return nil, members.ErrNoLeader
			}
			return git.check(ctx, push)
		},
		Pushed: func(repository, ref, sha string) {
			if git := p.git.Load(); git != nil {
				git.pushed(repository, ref, sha)
			}
		},
		Keep: func(string) []string { return inForce(c.Cache()) }, Sandbox: p.sandbox, Log: p.log("receive")}
	if p.member == nil {
		p.remote = receive.New(cfg)
		return
	}
	cfg.Commit = func(ctx context.Context, _ string, refs map[string]string) (map[string]string, error) {
		return p.replica.Commit(ctx, refs)
	}
	p.remote = receive.New(cfg)
	of := p.asMember()
	of.Log = p.log("receive")
	p.replica = members.NewReplica(of, p.roll, RepositoryName,
		gitCopy{remote: p.remote, authority: p.authority, server: p.member.Name, call: p.asServer})
}

// asMember is what the rooms of several servers know of this one.
func (p *ControlPlane) asMember() members.Config {
	return members.Config{Name: p.member.Name, Store: p.store, Client: p.as(identity.APIServer), Cache: p.registry.Cache(),
		Address: p.advertised, Log: p.log("members")}
}
