package receive

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"
)

// SetMirrors says what Run keeps in step from now on, in place of what was said
// before. A mirror that stays as it is goes on undisturbed; one that is changed
// begins anew with what is known of both sides. Of two with one URL and
// direction the first counts.
func (r *Remote) SetMirrors(wanted []Mirror) {
	r.mirrorsMu.Lock()
	defer r.mirrorsMu.Unlock()
	var next []*mirror
	for _, cfg := range wanted {
		cfg = cfg.withDefaults()
		log := r.cfg.Log.With("repository", cfg.Repository, "mirror", nameOf(cfg.URL))
		if r.repos[cfg.Repository] == nil {
			log.Warn("mirror not kept: its repository is not served here")
			continue
		}
		if slices.ContainsFunc(next, func(m *mirror) bool { return m.cfg.same(cfg) }) {
			log.Warn("mirror not kept: another has its URL and direction")
			continue
		}
		i := slices.IndexFunc(r.mirrors, func(m *mirror) bool { return reflect.DeepEqual(m.cfg, cfg) })
		if i >= 0 {
			next = append(next, r.mirrors[i])
		} else {
			next = append(next, r.openMirror(cfg))
		}
	}
	r.mirrors = next
	select {
	case r.mirroring <- struct{}{}:
	default:
	}
}

func (m Mirror) withDefaults() Mirror {
	if len(m.Refs) == 0 {
		m.Refs = []string{"refs/heads/*", "refs/tags/*"}
	}
	if m.Interval <= 0 {
		m.Interval = time.Minute
	}
	if m.Timeout <= 0 {
		m.Timeout = 5 * time.Minute
	}
	m.Interval = max(m.Interval, time.Second)
	return m
}

// same says whether two go between the same repositories the same way: they
// share what is known of both.
func (m Mirror) same(o Mirror) bool {
	return m.Repository == o.Repository && m.Pull == o.Pull && nameOf(m.URL) == nameOf(o.URL)
}

// Mirrors says how each mirror is doing, in the order of SetMirrors.
func (r *Remote) Mirrors() []MirrorStatus {
	var out []MirrorStatus
	for _, m := range r.kept() {
		m.mu.Lock()
		s := m.status
		m.mu.Unlock()
		s.Refs = maps.Clone(s.Refs)
		out = append(out, s)
	}
	return out
}

// kept are the mirrors that should run.
func (r *Remote) kept() []*mirror {
	r.mirrorsMu.Lock()
	defer r.mirrorsMu.Unlock()
	return r.mirrors // SetMirrors makes a new slice
}

// CredentialsChanged has the mirrors that use the credentials look now.
func (r *Remote) CredentialsChanged(name string) {
	for _, m := range r.kept() {
		if m.cfg.Credentials == name {
			m.look()
		}
	}
}

// Notify has the mirrors of a repository look now, both those that bring in and
// those that pass on: the other host says that somebody has pushed there. It
// does not wait.
func (r *Remote) Notify(repository string) {
	for _, m := range r.kept() {
		if m.cfg.Repository == repository {
			m.look()
		}
	}
}

// wakeMirrors passes a push on; the pusher does not wait.
func (r *Remote) wakeMirrors(repository string) {
	for _, m := range r.kept() {
		if m.cfg.Repository == repository && !m.cfg.Pull {
			m.look()
		}
	}
}

// keepMirrors starts and stops mirrors as SetMirrors asks, until ctx is done.
func (r *Remote) keepMirrors(ctx context.Context) error {
	running := make(map[*mirror]func()) // stops it, and waits
	defer func() {
		for _, stop := range running {
			stop()
		}
	}()
	for {
		kept := r.kept()
		for m, stop := range running {
			if !slices.Contains(kept, m) {
				stop() // before the one that takes its place begins
				delete(running, m)
			}
		}
		for _, m := range kept {
			if running[m] == nil {
				running[m] = m.start(ctx)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.mirroring:
		}
	}
}

// start runs the mirror in the background and returns what stops it and waits.
func (m *mirror) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.run(ctx)
	}()
	return func() { cancel(); <-done }
}
