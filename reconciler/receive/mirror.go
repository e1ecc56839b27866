package receive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/writ-os/writ/reconciler/source"
)

// Mirror is a repository on another host that is kept in step with one here.
type Mirror struct {
	Repository string // here
	URL        string // https:// or ssh://
	// Credentials is what Config.Credentials is asked for; "" for none.
	Credentials string
	// Pull brings what the other one has here, as a push of the user "mirror"
	// that Check judges; otherwise what is pushed here is pushed there.
	Pull bool
	// Refs to keep in step, as Rule.Refs names them. Default refs/heads/* and
	// refs/tags/*.
	Refs []string
	// Force lets a ref of the copy be rewritten or deleted. Without it one that
	// has gone another way is a failure.
	Force bool
	// Interval between two looks, at least 1s. Default 1m. A push here is passed
	// on at once.
	Interval time.Duration
	// Timeout of one exchange. Default 5m.
	Timeout time.Duration
}

// MirrorStatus is how a mirror is doing. It outlives the process.
type MirrorStatus struct {
	Repository string            `json:"repository"`
	URL        string            `json:"url"` // without user and password
	Pull       bool              `json:"pull,omitempty"`
	Refs       map[string]string `json:"refs,omitempty"`   // what both had when they last agreed
	InStep     time.Time         `json:"inStep,omitzero"`  // since when both have them
	Looked     time.Time         `json:"looked,omitzero"`  // the last exchange that went well
	Failing    time.Time         `json:"failing,omitzero"` // since; zero when the last exchange went well
	Failures   int               `json:"failures,omitempty"`
	Message    string            `json:"message,omitempty"`
}

// mirror keeps one Mirror.
type mirror struct {
	cfg  Mirror
	of   *Remote
	repo *repository
	name string // of the other one, without user and password
	file string
	wake chan struct{}

	// Only the goroutine that runs it touches these.
	remote *source.Remote // nil before the first exchange
	auth   source.Auth    // of remote

	mu     sync.Mutex
	status MirrorStatus
	failed uint64 // exchanges, since the mirror was opened
}

// openMirror makes a mirror that goes on where an earlier one ended.
func (r *Remote) openMirror(cfg Mirror) *mirror {
	m := &mirror{cfg: cfg, of: r, repo: r.repos[cfg.Repository], name: nameOf(cfg.URL), wake: make(chan struct{}, 1)}
	m.load()
	return m
}

// look has the mirror look now; the caller does not wait.
func (m *mirror) look() {
	select {
	case m.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// run keeps the mirror until ctx is done.
func (m *mirror) run(ctx context.Context) {
	defer m.close()
	for {
		err := m.sync(ctx)
		if ctx.Err() != nil {
			return
		}
		failures := m.note(ctx, err)
		m.of.cfg.Mirrored()
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-time.After(source.Pause(m.cfg.Interval, failures, rand.Float64())):
		}
	}
}

// connect sees to it that the remote has the credentials of now.
func (m *mirror) connect() error {
	var auth source.Auth
	if name := m.cfg.Credentials; name != "" {
		var err error
		if auth, err = m.of.cfg.Credentials(name); err != nil {
			return err
		}
	}
	if m.remote != nil && reflect.DeepEqual(auth, m.auth) {
		return nil
	}
	remote, err := source.Connect(m.cfg.URL, auth)
	if err != nil {
		return err
	}
	m.close()
	m.remote, m.auth = remote, auth
	return nil
}

func (m *mirror) close() {
	if m.remote != nil {
		m.remote.Close()
	}
}

// sync brings both into step once.
func (m *mirror) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	if err := m.connect(); err != nil {
		return err
	}
	if m.cfg.Pull {
		return m.pull(ctx)
	}
	return m.push(ctx)
}

// pick keeps the refs that are mirrored.
func (m *mirror) pick(refs map[string]string) map[string]string {
	out := make(map[string]string)
	for name, sha := range refs {
		if matches(m.cfg.Refs, name) {
			out[name] = sha
		}
	}
	return out
}

// push brings the other repository into step with this one.
func (m *mirror) push(ctx context.Context) error {
	now, err := m.repo.refs()
	if err != nil {
		return err
	}
	mine := m.pick(now)
	refused, err := m.remote.Push(ctx, func(has map[string]string) ([]source.Update, io.ReadCloser, error) {
		return m.plan(mine, has)
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		return fmt.Errorf("%s does not take %s: %s", m.name, name, refused[name])
	}
	m.agreed(mine)
	return nil
}

// plan decides what the other repository lacks, and packs it.
func (m *mirror) plan(mine, has map[string]string) ([]source.Update, io.ReadCloser, error) {
	m.repo.packs.RLock()
	defer m.repo.packs.RUnlock()
	st := openObjects(m.repo.dir)
	var updates []source.Update
	var d demand
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		sha := mine[name]
		if has[name] == sha {
			continue
		}
		if old := has[name]; old != "" && !m.cfg.Force {
			forward, err := reaches(st, plumbing.NewHash(sha), plumbing.NewHash(old))
			if err != nil || !forward {
				return nil, nil, errors.Join(fmt.Errorf("%s of %s has %s, which is not in the history here: pull it, or let the mirror force", name, m.name, old), st.Close())
			}
		}
		updates = append(updates, source.Update{Ref: name, Old: has[name], New: sha})
		d.wants = append(d.wants, plumbing.NewHash(sha))
	}
	for name, sha := range m.pick(has) {
		if _, still := mine[name]; !still && m.cfg.Force {
			updates = append(updates, source.Update{Ref: name, Old: sha})
		}
	}
	for _, sha := range has {
		if h := plumbing.NewHash(sha); st.HasEncodedObject(h) == nil {
			if c, err := commitOrNil(st, peelTag(st, h)); err == nil && c != nil {
				d.haves = append(d.haves, c.Hash)
			}
		}
	}
	if len(d.wants) == 0 {
		return updates, nil, st.Close()
	}
	objs, err := choose(st, d)
	if err != nil {
		return nil, nil, errors.Join(err, st.Close())
	}
	return updates, m.stream(st, objs), nil
}

// stream encodes a pack while it is read, and closes the objects at its end.
func (m *mirror) stream(st *objects, objs []plumbing.Hash) io.ReadCloser {
	out, in := io.Pipe()
	m.repo.packs.RLock()
	go func() {
		defer m.repo.packs.RUnlock()
		err := streamPack(in, st, objs)
		_ = in.CloseWithError(errors.Join(err, st.Close()))
	}()
	return out
}
