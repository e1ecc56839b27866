package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// FleetConfig is everything a Fleet needs from outside.
type FleetConfig struct {
	Client client.Backend
	// Except is the repository that the process follows by its flags.
	Except string
	// Open makes what follows a repository; it starts nothing. An error is
	// reported in the status of the Repository and tried again.
	Open func(repo *v1alpha1.Repository) (Follower, error)
	Log  *slog.Logger
}

// Follower follows one repository.
type Follower interface {
	Run(ctx context.Context) error
	// Notify says that there may be something new.
	Notify()
}

// Fleet follows every Repository that Git declares, besides the one of the
// flags. A Repository that goes leaves its objects where they are: they are
// nobody's then, and its inventories go.
type Fleet struct {
	cfg FleetConfig

	mu      sync.Mutex
	running map[string]*runningFollower
	changed chan struct{}
	// forgotten are the repositories that were declared when what others have
	// left was last taken away. Only Run touches it.
	forgotten map[string]bool
}

// runningFollower is a running Follower.
type runningFollower struct {
	Follower
	spec *v1alpha1.RepositorySpec
	// credentials are what the Secret had when it was opened.
	credentials map[string][]byte
	stop        func() // and wait
}

// retryOpen is how soon a repository is opened again that could not be.
const retryOpen = 10 * time.Second

// NewFleet returns a fleet; it starts nothing.
func NewFleet(cfg FleetConfig) *Fleet {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Fleet{cfg: cfg, running: map[string]*runningFollower{}, changed: make(chan struct{}, 1)}
}

// Notify wakes the follower of a repository, as a webhook asks for; false
// when there is none.
func (f *Fleet) Notify(repository string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.running[repository]
	if r != nil {
		r.Notify()
	}
	return r != nil
}

// Follower is what follows a repository; nil when nothing does.
func (f *Fleet) Follower(repository string) Follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.running[repository]; r != nil {
		return r.Follower
	}
	return nil
}

// Run follows the repositories until ctx is done.
func (f *Fleet) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	wake := func(client.Event) {
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
	if err := f.cfg.Client.Cache().Subscribe(ctx, schema.ResourceFor[*v1alpha1.Repository](), wake); err != nil {
		return fmt.Errorf("subscribe to repositories: %w", err)
	}
	if err := f.cfg.Client.Cache().Subscribe(ctx, schema.ResourceFor[*corev1.Secret](), wake); err != nil {
		return fmt.Errorf("subscribe to secrets: %w", err)
	}
	g.Go(func() error {
		defer f.stopAll()
		for {
			var again <-chan time.Time
			if !f.settle(ctx, g) {
				again = time.After(retryOpen)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-f.changed:
			case <-again:
			}
		}
	})
	return g.Wait()
}

// settle starts what is declared and does not run, and stops what is not
// declared any more, or otherwise. It says whether all could be started.
func (f *Fleet) settle(ctx context.Context, g *errgroup.Group) bool {
	declared := map[string]*v1alpha1.Repository{}
	for _, repo := range client.CachedList[*v1alpha1.Repository](f.cfg.Client.Cache(), "") {
		if repo.Name != f.cfg.Except && repo.DeletionTimestamp == nil {
			declared[repo.Name] = repo
		}
	}
	for name, r := range f.snapshot() {
		if repo := declared[name]; repo == nil || !sameSource(r.spec, &repo.Spec) || !reflect.DeepEqual(r.credentials, f.credentials(repo)) {
			f.drop(name, r)
		}
	}
	f.forget(ctx, declared)
	ok := true
	for name, repo := range declared {
		if f.has(name) {
			continue
		}
		if err := f.start(ctx, g, repo); err != nil {
			f.cfg.Log.Warn("repository not followed", "repository", name, "err", err)
			New(Config{Client: f.cfg.Client, Repository: name, Declared: true, Log: f.cfg.Log}).repositoryFailed(ctx, err)
			ok = false
		}
	}
	return ok
}

// sameSource says whether a running follower still does for a spec: what does
// not concern the source is read from the object each time.
func sameSource(a, b *v1alpha1.RepositorySpec) bool {
	pick := func(s *v1alpha1.RepositorySpec) v1alpha1.RepositorySpec {
		return v1alpha1.RepositorySpec{URL: s.URL, Branch: s.Branch, Tag: s.Tag, SemVer: s.SemVer, Commit: s.Commit, Path: s.Path,
			Interval: s.Interval, Timeout: s.Timeout, CredentialsSecret: s.CredentialsSecret, Verification: s.Verification,
			Decryption: s.Decryption, Webhook: s.Webhook}
	}
	return reflect.DeepEqual(pick(a), pick(b))
}

// credentials are what the Secret of a repository has now.
func (f *Fleet) credentials(repo *v1alpha1.Repository) map[string][]byte {
	return SecretData(f.cfg.Client.Cache(), repo.Spec.CredentialsSecret)
}

func (f *Fleet) start(ctx context.Context, g *errgroup.Group, repo *v1alpha1.Repository) error {
	credentials := f.credentials(repo)
	opened, err := f.cfg.Open(repo)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	r := &runningFollower{Follower: opened, spec: repo.Spec.DeepCopy(), credentials: credentials, stop: func() { cancel(); <-done }}
	f.mu.Lock()
	f.running[repo.Name] = r
	f.mu.Unlock()
	g.Go(func() error {
		defer close(done)
		if err := opened.Run(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("follow repository %s: %w", repo.Name, err)
		}
		return nil
	})
	return nil
}

// forget takes away the inventories of repositories that are gone, while the
// process ran or before, and ends their commits.
func (f *Fleet) forget(ctx context.Context, declared map[string]*v1alpha1.Repository) {
	if f.forgotten != nil && len(f.forgotten) == len(declared) && !slices.ContainsFunc(slices.Collect(maps.Keys(declared)), func(name string) bool { return !f.forgotten[name] }) {
		return // none has gone since
	}
	gone := func(repository string) bool { return repository != f.cfg.Except && declared[repository] == nil }
	var ops []client.Op
	for _, inv := range client.CachedList[*v1alpha1.Inventory](f.cfg.Client.Cache(), "") {
		if gone(inv.Spec.Repository) {
			ops = append(ops, client.Op{Verb: client.VerbDelete, Resource: schema.ResourceFor[*v1alpha1.Inventory](), Key: schema.KeyOf(inv)})
		}
	}
	for _, c := range client.CachedList[*v1alpha1.Commit](f.cfg.Client.Cache(), "") {
		if gone(c.Spec.Repository) {
			ops = append(ops, report.Abandoned(c)...)
		}
	}
	if len(ops) > 0 {
		if _, err := f.cfg.Client.Transact(ctx, ops, false); err != nil {
			if ctx.Err() == nil {
				f.cfg.Log.Warn("repositories that are gone not forgotten", "err", err)
			}
			return
		}
	}
	f.forgotten = make(map[string]bool, len(declared))
	for name := range declared {
		f.forgotten[name] = true
	}
}

func (f *Fleet) snapshot() map[string]*runningFollower {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]*runningFollower, len(f.running))
	for name, r := range f.running {
		out[name] = r
	}
	return out
}

func (f *Fleet) has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[name] != nil
}

func (f *Fleet) drop(name string, r *runningFollower) {
	f.mu.Lock()
	delete(f.running, name)
	f.mu.Unlock()
	r.stop()
}

func (f *Fleet) stopAll() {
	for name, r := range f.snapshot() {
		f.drop(name, r)
	}
}
