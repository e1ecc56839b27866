package receive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/writ-os/writ/reconciler/source"
)

// pullWithin bounds the pull of a replica.
const pullWithin = 2 * time.Minute

// Refs are the refs of a repository as they are now.
func (r *Remote) Refs(name string) (map[string]string, error) {
	repo, err := r.repo(name)
	if err != nil {
		return nil, err
	}
	return repo.refs()
}

// Pull makes a repository what it is at another server of the cluster. Nobody is
// asked: what is there has been accepted there.
func (r *Remote) Pull(ctx context.Context, name, url string, auth source.Auth) error {
	repo, err := r.repo(name)
	if err != nil {
		return err
	}
	cfg := r.cfg
	cfg.Check, cfg.Commit, cfg.Pushed, cfg.Rules = nil, nil, nil, nil
	plain := &Remote{cfg: cfg, repos: r.repos, mirroring: make(chan struct{}, 1)}
	remote, err := source.Connect(url, auth)
	if err != nil {
		return fmt.Errorf("pull repository %s: %w", name, err)
	}
	defer remote.Close()
	ctx, cancel := context.WithTimeout(ctx, pullWithin)
	defer cancel()
	m := &mirror{cfg: Mirror{Repository: name, URL: url, Pull: true, Force: true, Refs: []string{"refs/*"}}, of: plain, repo: repo, name: nameOf(url), remote: remote}
	if err := m.pull(ctx); err != nil {
		return fmt.Errorf("pull repository %s: %w", name, err)
	}
	r.tidy(ctx, repo)
	return nil
}

// tidy merges packs where there have come to be many, as after a push: a server
// that takes none is brought one with each.
func (r *Remote) tidy(ctx context.Context, repo *repository) {
	if err := repo.merge(); err != nil {
		r.cfg.Log.WarnContext(ctx, "merge packs", "repository", repo.name, "err", err)
	}
}

// Adopt gives a repository these refs and no others. Where objects are missing
// nothing is changed, and they are named. Killed in the middle it leaves some refs
// as they were and some as they are to be, all of them whole.
func (r *Remote) Adopt(name string, refs map[string]string) (missing []string, err error) {
	repo, err := r.repo(name)
	if err != nil {
		return nil, err
	}
	repo.pushes.RLock() // what the refs lead to is not collected meanwhile
	defer repo.pushes.RUnlock()
	return repo.adoptAlone(refs)
}

// AdoptFrom is Adopt with the objects that are missing here and that another
// server of the cluster has. What that one's own refs are does not matter: it may
// have gone on, or back. What it sends is believed as little as any push.
func (r *Remote) AdoptFrom(ctx context.Context, name, url string, auth source.Auth, refs map[string]string) (missing []string, err error) {
	repo, err := r.repo(name)
	if err != nil {
		return nil, err
	}
	repo.pushes.RLock()
	defer repo.pushes.RUnlock()
	missing, err = repo.lacks(refs)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, pullWithin)
	defer cancel()
	defer r.tidy(ctx, repo)
	for _, sha := range missing { // one by one: it may have some of them
		if err := r.gather(ctx, repo, url, auth, sha); err != nil && !strings.Contains(err.Error(), notOurs) {
			return missing, fmt.Errorf("fetch %s of repository %s: %w", sha, name, err)
		}
	}
	return repo.adoptAlone(refs)
}

// Missing are the objects of refs that a repository lacks.
func (r *Remote) Missing(name string, refs map[string]string) ([]string, error) {
	repo, err := r.repo(name)
	if err != nil {
		return nil, err
	}
	return repo.lacks(refs)
}

// gather fetches an object from another server with all that it refers to. No
// ref leads to it yet.
func (r *Remote) gather(ctx context.Context, repo *repository, url string, auth source.Auth, sha string) error {
	now, err := repo.refs()
	if err != nil {
		return err
	}
	remote, err := source.Connect(url, auth)
	if err != nil {
		return err
	}
	defer remote.Close()
	in, err := remote.Fetch(ctx, []string{sha}, repo.commitsOf(now))
	if err != nil {
		return err
	}
	defer in.Close()
	q, err := repo.quarantine(r.branch())
	if err != nil {
		return err
	}
	defer q.close()
	if err := q.receive(ctx, r.cfg.Sandbox, in, r.limits()); err != nil {
		return err
	}
	return q.promote()
}

func (repo *repository) adoptAlone(refs map[string]string) (missing []string, err error) {
	repo.commits.Lock()
	defer repo.commits.Unlock()
	return repo.adopt(refs)
}

// adopt is Adopt for who holds pushes and commits.
func (repo *repository) adopt(refs map[string]string) (missing []string, err error) {
	name := repo.name
	if missing, err = repo.lacks(refs); len(missing) > 0 || err != nil {
		return missing, err
	}
	for ref := range refs {
		if reason := checkRefName(ref); reason != "" {
			return nil, fmt.Errorf("adopt %s of %s: %s", ref, name, reason)
		}
	}
	repo.mu.Lock()
	defer repo.mu.Unlock()
	now, err := readRefs(repo.dir)
	if err != nil {
		return nil, fmt.Errorf("read refs of %s: %w", name, err)
	}
	for ref := range now { // first: a branch a is in the way of a/b
		if _, stays := refs[ref]; !stays {
			if err := repo.deleteRef(ref); err != nil {
				return nil, fmt.Errorf("adopt refs of %s: %w", name, err)
			}
		}
	}
	for ref, sha := range refs {
		if now[ref] == sha {
			continue
		}
		if err := repo.writeRef(ref, sha); err != nil {
			return nil, fmt.Errorf("adopt %s of %s: %w", ref, name, err)
		}
	}
	return nil, nil
}

// lacks are the objects of refs that are not here. One that is here has all that
// it refers to.
func (repo *repository) lacks(refs map[string]string) (missing []string, err error) {
	repo.packs.RLock()
	defer repo.packs.RUnlock()
	st := openObjects(repo.dir)
	defer st.Close()
	for _, sha := range slices.Compact(slices.Sorted(maps.Values(refs))) {
		switch err := st.HasEncodedObject(plumbing.NewHash(sha)); {
		case errors.Is(err, plumbing.ErrObjectNotFound):
			missing = append(missing, sha)
		case err != nil: // it may be here
			return nil, fmt.Errorf("look for %s in %s: %w", sha, repo.name, err)
		}
	}
	return missing, nil
}

func (r *Remote) repo(name string) (*repository, error) {
	if repo := r.repos[name]; repo != nil {
		return repo, nil
	}
	return nil, fmt.Errorf("there is no repository %q here", name)
}

// commit has what was pushed kept elsewhere before anybody hears of it.
func (r *Remote) commit(ctx context.Context, repo *repository, verdicts []verdict) {
	if r.cfg.Commit == nil || !slices.ContainsFunc(verdicts, func(v verdict) bool { return v.reason == "" }) {
		return
	}
	refs, err := repo.refs()
	if err == nil {
		var instead map[string]string
		if instead, err = r.cfg.Commit(ctx, repo.name, refs); err == nil {
			return
		}
		if instead != nil {
			if _, aerr := repo.adopt(instead); aerr != nil {
				err = errors.Join(err, aerr)
			}
		}
	}
	for i := range verdicts {
		if v := &verdicts[i]; v.reason == "" {
			v.reason, v.err = "not kept by most of the servers: "+err.Error(), err
		}
	}
}
