package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/examples"
	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/notify"
	"github.com/writ-os/writ/reconciler/receive"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/source"
	"github.com/writ-os/writ/reconciler/spans"
	"github.com/writ-os/writ/reconciler/webhook"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/podstandard"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// repository is the Git side of a control plane: the built-in remote if the
// cluster has one, the source it reads, and the reconciler.
type repository struct {
	cfg        Config
	remote     *receive.Remote // nil with an external repository
	mirrors    *mirrors        // of remote
	source     *source.Source
	reconciler *reconciler.Reconciler
	fleet      *reconciler.Fleet // of the repositories that Git declares
	webhooks   *webhook.Handler
	notifier   *notify.Notifier
	spans      *spans.Spans
}

// branch and path that the cluster follows.
func (r Repository) branch() string { return or(r.Branch, "main") }
func (r Repository) path() string   { return or(r.Path, ".") }

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// newRepository returns what follows Git, with the built-in remote if there is
// one; it starts nothing.
func newRepository(cfg Config, remote *receive.Remote, box *sandbox.Sandbox, c client.Backend, catalog *schema.Live, metrics prometheus.Registerer) (*repository, error) {
	r := &repository{cfg: cfg, remote: remote}
	from := source.Config{URL: cfg.Repository.URL, Branch: cfg.Repository.branch(), Path: cfg.Repository.path(),
		Dir: cfg.file("git", "source"), Interval: cfg.Repository.Interval, Log: cfg.Log.With("part", "source"), Sandbox: box}
	judge, err := podstandard.New(cfg.API.podSecurity())
	if err != nil {
		return nil, err
	}
	others := opener{judge: judge, sandbox: box, dir: cfg.file("git", "sources"), client: c, catalog: catalog, metrics: metrics, log: cfg.Log}
	if remote != nil {
		r.mirrors = &mirrors{client: c, remote: remote, wake: make(chan struct{}, 1), log: cfg.Log.With("part", "mirrors")}
		from.Builtin = remote.RepoDir(RepositoryName)
	}
	if from.Auth, err = cfg.Repository.auth(); err != nil {
		return nil, err
	}
	r.source = source.New(from)
	r.reconciler = reconciler.New(reconciler.Config{Client: c, Sandbox: box, PodSecurity: judge, Source: reconciler.Git(r.source, cfg.Repository.path()), Catalog: catalog,
		Repository: RepositoryName, Spec: cfg.Repository.spec(), Log: cfg.Log.With("part", "reconciler"), Metrics: metrics})
	r.fleet = reconciler.NewFleet(reconciler.FleetConfig{Client: c, Except: RepositoryName, Open: others.open, Log: cfg.Log.With("part", "fleet")})
	r.webhooks = r.hooks(c.Cache())
	telling := r.telling(c)
	telling.Metrics = metrics
	r.notifier = notify.New(telling)
	r.spans = spans.New(spans.Config{Client: c, Version: cfg.Version, Log: cfg.Log.With("part", "spans")})
	metrics.MustRegister(reconciler.State{Cache: c.Cache()})
	if r.remote != nil {
		metrics.MustRegister(receive.Metrics{Remote: r.remote})
	}
	return r, nil
}

// auth reads the files that the flags name.
func (r Repository) auth() (source.Auth, error) {
	a := source.Auth{Username: r.Username, Password: r.Password, BearerToken: r.BearerToken}
	for _, f := range []struct {
		path string
		into *[]byte
		flag string
	}{{r.SSHKey, &a.SSHKey, "--repo-ssh-key"}, {r.KnownHosts, &a.KnownHosts, "--repo-known-hosts"}, {r.CA, &a.CA, "--repo-ca"}} {
		if f.path == "" {
			continue
		}
		b, err := os.ReadFile(f.path)
		if err != nil {
			return a, fmt.Errorf("read %s: %w", f.flag, err)
		}
		*f.into = b
	}
	return a, nil
}

// spec is what the Repository object says of the flags.
func (r Repository) spec() v1alpha1.RepositorySpec {
	s := v1alpha1.RepositorySpec{URL: or(r.URL, "builtin"), Branch: r.branch(), Path: r.path()}
	if r.Interval > 0 {
		s.Interval = &metav1.Duration{Duration: r.Interval}
	}
	return s
}

// start follows the branch.
func (r *repository) start(ctx context.Context, g *errgroup.Group) {
	if r.remote != nil {
		g.Go(func() error { return r.remote.Run(ctx) })
		g.Go(func() error { return r.mirrors.Run(ctx) })
	}
	g.Go(func() error { return r.source.Run(ctx) })
	g.Go(func() error { return r.reconciler.Run(ctx) })
	g.Go(func() error { return r.fleet.Run(ctx) })
	g.Go(func() error { return r.notifier.Run(ctx) })
	g.Go(func() error { return r.spans.Run(ctx) })
}

func (r *repository) seed() error {
	if r.cfg.Seed == "" || r.remote == nil {
		return nil
	}
	files, err := fs.Sub(examples.FS, r.cfg.Seed)
	if err != nil {
		return fmt.Errorf("open example %s: %w", r.cfg.Seed, err)
	}
	if _, err := fs.Stat(files, "."); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no example %q", r.cfg.Seed)
	}
	if _, err := r.remote.Seed(RepositoryName, files, "Begin with the "+r.cfg.Seed+" example"); err != nil {
		return fmt.Errorf("seed the repository: %w", err)
	}
	return nil
}

// previewTimeout bounds what a push may cost before it is answered.
const previewTimeout = time.Minute

// check decides on a push before the branch moves: the plan, or the findings.
func (r *repository) check(ctx context.Context, p receive.Push) ([]string, error) {
	if p.Ref != "refs/heads/"+r.cfg.Repository.branch() || p.New == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, previewTimeout)
	defer cancel()
	pushed := r.source.Beside(p.Dir)
	defer pushed.Close()
	c, err := pushed.Commit(p.New)
	if err != nil {
		return nil, err
	}
	return r.reconciler.Receive(ctx, reconciler.Git(pushed, r.cfg.Repository.path()), c)
}

// inForce are the commits that the cluster may need again, whatever becomes of
// the branch.
func inForce(cache client.Cache) []string {
	repo, ok := client.Cached[*v1alpha1.Repository](cache, schema.Key{Name: RepositoryName})
	if !ok {
		return nil
	}
	var out []string
	for _, sha := range []string{repo.Status.Applied, repo.Status.Healthy, repo.Status.Head} {
		if sha != "" {
			out = append(out, sha)
		}
	}
	return out
}

// pushed wakes the reconciler.
func (r *repository) pushed(_, ref, _ string) {
	if ref == "refs/heads/"+r.cfg.Repository.branch() {
		r.source.Notify()
	}
}
