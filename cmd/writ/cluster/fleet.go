package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/source"
	"github.com/writ-os/writ/reconciler/webhook"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/podstandard"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// opener makes the followers of the Repository objects that Git declares.
type opener struct {
	sandbox *sandbox.Sandbox
	judge   *podstandard.Judge
	dir     string // of the clones
	client  client.Backend
	catalog *schema.Live
	metrics prometheus.Registerer
	log     *slog.Logger
}

// open implements reconciler.FleetConfig.Open.
func (o opener) open(repo *v1alpha1.Repository) (reconciler.Follower, error) {
	auth, err := o.auth(repo.Spec.CredentialsSecret)
	if err != nil {
		return nil, err
	}
	s := &repo.Spec
	cfg := source.Config{URL: s.URL, Branch: s.Branch, Tag: s.Tag, SemVer: s.SemVer, Commit: s.Commit, Path: s.Path,
		Dir: filepath.Join(o.dir, repo.Name), Auth: auth, Sandbox: o.sandbox, Log: o.log.With("part", "source", "repository", repo.Name)}
	if s.Interval != nil {
		cfg.Interval = s.Interval.Duration
	}
	if s.Timeout != nil {
		cfg.Timeout = s.Timeout.Duration
	}
	if s.URL == "builtin" {
		return nil, fmt.Errorf("repository %s: the built-in remote is followed by the server itself; name another URL", repo.Name)
	}
	src := source.New(cfg)
	return follower{src, reconciler.New(reconciler.Config{Client: o.client, Sandbox: o.sandbox, PodSecurity: o.judge, Source: reconciler.Git(src, or(s.Path, ".")), Catalog: o.catalog,
		Repository: repo.Name, Spec: *s, Declared: true, Log: o.log.With("part", "reconciler"), Metrics: o.metrics})}, nil
}

// auth reads the Secret that a Repository names.
func (o opener) auth(name string) (source.Auth, error) {
	if name == "" {
		return source.Auth{}, nil
	}
	data := reconciler.SecretData(o.client.Cache(), name)
	if data == nil {
		return source.Auth{}, fmt.Errorf("the credentials are in the Secret %s, which is not there: create it on the server, or take credentialsSecret out", name)
	}
	return source.Auth{Username: string(data["username"]), Password: string(data["password"]), BearerToken: strings.TrimSpace(string(data["bearerToken"])),
		SSHKey: data["ssh-privatekey"], KnownHosts: data["known_hosts"], CA: data["ca.crt"], ClientCert: data["tls.crt"], ClientKey: data["tls.key"]}, nil
}

// follower is a source with its reconciler.
type follower struct {
	source     *source.Source
	reconciler *reconciler.Reconciler
}

// Notify implements reconciler.Follower.
func (f follower) Notify() { f.source.Notify() }

// Run implements reconciler.Follower.
func (f follower) Run(ctx context.Context) error {
	defer f.source.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.source.Run(ctx) })
	g.Go(func() error { return f.reconciler.Run(ctx) })
	return g.Wait()
}

// hooks answers the forges: POST /hooks/<repository>.
func (r *repository) hooks(cache client.Cache) *webhook.Handler {
	return webhook.New(webhook.Config{Log: r.cfg.Log.With("part", "webhook"), Now: time.Now,
		Lookup: func(name string) (webhook.Hook, bool) {
			repo, ok := client.Cached[*v1alpha1.Repository](cache, schema.Key{Name: name})
			if !ok || repo.Spec.Webhook == nil {
				return webhook.Hook{}, false
			}
			h := webhook.Hook{Provider: webhook.Provider(repo.Spec.Webhook.Provider),
				Secret: reconciler.SecretData(cache, repo.Spec.Webhook.Secret)["token"]}
			if s := repo.Spec; s.Tag == "" && s.SemVer == "" && s.Commit == "" {
				h.Refs = []string{"refs/heads/" + or(s.Branch, "main")}
			}
			if name == RepositoryName && len(repo.Spec.Mirrors) > 0 {
				h.Refs = nil // which of them a mirror keeps in step it finds out itself
			}
			return h, true
		},
		Notify: func(name string) {
			if name == RepositoryName {
				r.source.Notify()
				if r.remote != nil {
					r.remote.Notify(name)
				}
			} else {
				r.fleet.Notify(name)
			}
		}})
}
