package members

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

const (
	keptWithin  = 30 * time.Second // a push is kept by most of the servers
	replicaLook = 15 * time.Second // at what the server that follows has
	askAgain    = time.Second      // of one that begins to lead
)

// Copy is the repository as this server has it. Servers are named by where they are.
type Copy interface {
	Refs() (map[string]string, error)
	// Missing are the objects of refs that are not here.
	Missing(refs map[string]string) ([]string, error)
	// Adopt gives it these refs and no others, or says what is missing.
	Adopt(refs map[string]string) (missing []string, err error)
	// AdoptFrom is Adopt with what another server has of what is missing.
	AdoptFrom(ctx context.Context, at netip.AddrPort, refs map[string]string) (missing []string, err error)
	// Pull makes it what it is at another server, also what that has not stored.
	Pull(ctx context.Context, at netip.AddrPort) error
	// HavePull has another server Pull from this one.
	HavePull(ctx context.Context, at netip.AddrPort) error
}

// Replica keeps the built-in repository of several servers. Its refs are in the
// store, which decides; its objects are files of each server. The server that
// leads takes pushes, and answers one when most of the servers have the objects
// and the store has the refs. The next to lead gives its copy the refs of the
// store, and fetches from the others what it has not got.
type Replica struct {
	roll *Roll
	cfg  Config
	refs *refs
	copy Copy

	serving atomic.Bool
	storing sync.Mutex                // between the reading of what the store has and the writing
	pulled  atomic.Pointer[time.Time] // when a server that leads had this one pull last

	// pulling is held by what changes the copy for the sake of another server. That
	// ends, for good, before this one leads: what it brings late would go over
	// what has been pushed here since.
	pulling   sync.Mutex
	following context.Context //nolint:containedctx // its end is a state of the replica: it leads
	leads     context.CancelFunc
}

// NewReplica returns the replica of a repository; it starts nothing.
func NewReplica(cfg Config, roll *Roll, repository string, c Copy) *Replica {
	r := &Replica{roll: roll, cfg: cfg, refs: &refs{cfg: cfg, roll: roll, repository: repository}, copy: c}
	r.follow()
	return r
}

// follow lets others change the copy, until leads is called.
func (r *Replica) follow() {
	r.pulling.Lock()
	defer r.pulling.Unlock()
	r.following, r.leads = context.WithCancel(context.Background())
}

// asFollower has change alter the copy, unless this server leads.
func (r *Replica) asFollower(ctx context.Context, change func(context.Context) error) error {
	r.pulling.Lock()
	defer r.pulling.Unlock()
	if r.following.Err() != nil {
		return errors.New("this server leads itself")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.following, cancel)()
	return change(ctx)
}

// Commit stores what was pushed here. Where it fails, instead are the refs to go
// back to: what the store says holds, whether or not the push has come into it.
func (r *Replica) Commit(ctx context.Context, refs map[string]string) (instead map[string]string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keptWithin) // also for a pusher that has gone
	defer cancel()
	if err := r.commit(ctx, refs); err != nil {
		r.cfg.Log.Warn("a push is not kept by most of the servers", "err", err)
		h, herr := r.refs.newest(ctx)
		return h.refs, errors.Join(err, herr)
	}
	return nil, nil
}

func (r *Replica) commit(ctx context.Context, refs map[string]string) error {
	r.storing.Lock()
	defer r.storing.Unlock()
	if !r.cfg.Store.IsLeader() {
		return ErrNoLeader
	}
	was, err := r.refs.newest(ctx)
	if err != nil {
		return err
	}
	if was.refs != nil && maps.Equal(was.refs, refs) {
		return nil
	}
	if len(refs) > 0 {
		if err := r.spread(ctx); err != nil {
			return err
		}
	}
	return r.refs.put(ctx, was, refs)
}

// spread returns when most of the servers have what the repository has here.
func (r *Replica) spread(ctx context.Context) error {
	all, err := r.cfg.Store.Members(ctx)
	if err != nil {
		return err
	}
	there := r.roll.Presences()
	ask, need := Keepers(all, there)
	done := make(chan error, len(ask))
	for _, name := range ask {
		go func() { done <- r.copy.HavePull(ctx, there[name].Address) }()
	}
	var failed []error
	for range ask {
		if need == 0 {
			break
		}
		if err := <-done; err != nil {
			failed = append(failed, err)
			continue
		}
		need--
	}
	if need > 0 {
		return errors.Join(append([]error{errors.New("too few of the other servers have fetched it")}, failed...)...)
	}
	return nil
}

// PullFrom pulls from the server that leads, and from no other: one that led may
// not have heard that it does so no more. What it pulls may not be stored yet.
func (r *Replica) PullFrom(ctx context.Context, name string) error {
	all, err := r.cfg.Store.Members(ctx)
	if err != nil {
		return err
	}
	at, ok := r.roll.Presences()[name]
	if !ok || !slices.ContainsFunc(all, func(m store.Member) bool { return m.Leader && !m.Self && m.Name == name }) {
		return fmt.Errorf("%s does not lead, as far as is known here", name)
	}
	return r.asFollower(ctx, func(ctx context.Context) error {
		now := time.Now()
		r.pulled.Store(&now)
		return r.copy.Pull(ctx, at.Address)
	})
}

// Lead makes the repository ready to be served by this server, which has begun to
// lead: it becomes what the store says. It waits for others that have what is
// missing here; nothing of Git is served or applied before. seed begins it where
// the store knows of no refs at all. When ctx ends before, it returns nil.
//
// stopped is to be called when this server leads no more; where there is an error it
// has been.
func (r *Replica) Lead(ctx context.Context, seed func() error) (stopped func(), err error) {
	r.leads()
	r.pulling.Lock()   // what was under way has ended
	r.pulling.Unlock() //nolint:staticcheck // see above
	stopped = func() {
		r.serving.Store(false)
		r.follow()
	}
	for said := ""; ; {
		begun, why, err := r.begin(ctx)
		switch {
		case ctx.Err() != nil:
			return stopped, nil
		case err != nil:
			why = err.Error()
		case !begun && why == "":
			if err := seed(); err != nil {
				stopped()
				return nil, err
			}
			here, err := r.copy.Refs()
			if err == nil {
				err = r.commit(ctx, here) // also what was there before there were several servers
			}
			if err != nil {
				why = err.Error()
			}
		}
		if why == "" {
			if err := r.moveRefs(ctx); err != nil && ctx.Err() == nil {
				r.cfg.Log.Warn("the refs of the repository stay where they are for now", "err", err)
			}
			r.serving.Store(true)
			return stopped, nil
		}
		if why != said {
			said = why
			r.cfg.Log.Warn("the repository is not served yet: what was pushed is on servers that do not answer", "why", why)
		}
		select {
		case <-ctx.Done():
			return stopped, nil
		case <-time.After(askAgain):
		}
	}
}

// begin does all that a server does which begins to lead, until it serves or has
// to wait. begun says that the store knows of refs.
func (r *Replica) begin(ctx context.Context) (begun bool, why string, err error) {
	said, failed := map[string]Said{}, []error(nil)
	for {
		h, err := r.refs.newest(ctx)
		if err != nil {
			return false, "", err
		}
		k, err := r.known(ctx, h, said)
		if err != nil {
			return false, "", err
		}
		k.Leads = true
		switch s := Next(k); s.Do {
		case Begin:
			return false, "", nil
		case Adopt:
			_, err := r.copy.Adopt(k.Stored)
			return true, "", err
		case Fetch:
			said[s.From] = Lacks
			if err := r.fetch(ctx, s.From, k.Stored); err != nil {
				said[s.From], failed = Silent, append(failed, err)
			}
		case GiveUp:
			if err := r.giveUp(ctx, h, s.Refs); err != nil {
				return true, "", err
			}
		case Rest, Wait:
			return true, strings.Join(k.Missing, " "), errors.Join(failed...)
		}
	}
}

func (r *Replica) known(ctx context.Context, h held, said map[string]Said) (k Known, err error) {
	k = Known{Stored: h.refs, Said: said, Brought: r.brought()}
	if k.Here, err = r.copy.Refs(); err != nil {
		return k, err
	}
	if k.Missing, err = r.copy.Missing(k.Stored); err != nil {
		return k, err
	}
	all, err := r.cfg.Store.Members(ctx)
	k.Others = slices.DeleteFunc(all, func(m store.Member) bool { return m.Self })
	return k, err
}

// fetch gives the copy here the refs of the store, with what it lacks from another
// server.
func (r *Replica) fetch(ctx context.Context, name string, refs map[string]string) error {
	at, ok := r.roll.Presences()[name]
	if !ok {
		return fmt.Errorf("it is not known where %s is", name)
	}
	_, err := r.copy.AdoptFrom(ctx, at.Address, refs)
	return err
}

// giveUp gives up what was pushed and is on no server any more: every server of
// the cluster has said that it does not have it. The servers that had it were
// lost, or removed.
func (r *Replica) giveUp(ctx context.Context, was held, left map[string]string) error {
	if err := r.refs.put(ctx, was, left); err != nil {
		return err
	}
	for ref, sha := range was.refs {
		if left[ref] != sha {
			r.cfg.Log.Error("what was pushed is lost: no server of the cluster has it; push it again", "ref", ref, "commit", sha, "now", left[ref])
		}
	}
	return nil
}

// Run keeps the copy of a server that does not lead, until ctx ends; and takes the
// refs to where they belong, when it does.
func (r *Replica) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	err := r.cfg.Cache.Subscribe(ctx, schema.ResourceFor[*corev1.ConfigMap](), func(ev client.Event) {
		if ev.Object != nil && schema.KeyOf(ev.Object) == r.refs.key() {
			nudge(wake)
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe to the refs of the repository: %w", err)
	}
	for {
		h, changed, err := r.refs.here()
		switch {
		case err != nil:
		case r.serving.Load():
			err = r.moveRefs(ctx)
		default:
			err = r.catchUp(ctx, h)
		}
		if err != nil && ctx.Err() == nil {
			r.cfg.Log.Info("copy of the repository not in step yet", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-changed:
		case <-time.After(replicaLook):
		}
	}
}

func (r *Replica) moveRefs(ctx context.Context) error {
	r.storing.Lock()
	defer r.storing.Unlock()
	if !r.cfg.Store.IsLeader() {
		return nil
	}
	return r.refs.move(ctx)
}

func (r *Replica) catchUp(ctx context.Context, h held) error {
	if leads, _ := r.cfg.Store.Lead(); leads {
		return nil // Lead does it
	}
	here, err := r.copy.Refs()
	if err != nil || h.refs == nil || maps.Equal(here, h.refs) {
		return err
	}
	// What is behind the others is no reason to let go of what is here: it may be
	// the only copy of what the store has decided meanwhile.
	if h, err = r.refs.newest(ctx); err != nil {
		return err
	}
	k, err := r.known(ctx, h, nil)
	if err != nil {
		return err
	}
	switch s := Next(k); s.Do {
	case Fetch:
		err := r.asFollower(ctx, func(ctx context.Context) error { return r.fetch(ctx, s.From, k.Stored) })
		if err != nil {
			return err
		}
		if k.Missing, err = r.copy.Missing(k.Stored); len(k.Missing) > 0 {
			err = fmt.Errorf("%s does not have %s", s.From, strings.Join(k.Missing, " "))
		}
		return err
	case Wait:
		return ErrNoLeader
	}
	return nil
}

// brought says that this server was asked for a push a moment ago which the store
// may not have yet.
func (r *Replica) brought() bool {
	at := r.pulled.Load()
	return at != nil && time.Since(*at) < keptWithin
}
