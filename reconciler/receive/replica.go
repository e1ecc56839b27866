package receive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	return nil
}

// Adopt gives a repository these refs and no others. Where objects are missing
// nothing is changed, and they are named.
func (r *Remote) Adopt(name string, refs map[string]string) (missing []string, err error) {
	repo, err := r.repo(name)
	if err != nil {
		return nil, err
	}
	repo.pushes.RLock() // what the refs lead to is not collected meanwhile
	defer repo.pushes.RUnlock()
	repo.commits.Lock()
	defer repo.commits.Unlock()
	return repo.adopt(refs)
}

// adopt is Adopt for who holds pushes and commits.
func (repo *repository) adopt(refs map[string]string) (missing []string, err error) {
	name := repo.name
	if missing = repo.lacks(slices.Sorted(maps.Values(refs))); len(missing) > 0 {
		return missing, nil
	}
	repo.mu.Lock()
	defer repo.mu.Unlock()
	now, err := readRefs(repo.dir)
	if err != nil {
		return nil, fmt.Errorf("read refs of %s: %w", name, err)
	}
	for ref, sha := range refs {
		if now[ref] == sha {
			continue
		}
		if reason := checkRefName(ref); reason != "" {
			return nil, fmt.Errorf("adopt %s of %s: %s", ref, name, reason)
		}
		if err := repo.writeRef(ref, sha); err != nil {
			return nil, fmt.Errorf("adopt %s of %s: %w", ref, name, err)
		}
	}
	for ref := range now {
		if _, stays := refs[ref]; !stays {
			if err := repo.deleteRef(ref); err != nil {
				return nil, fmt.Errorf("adopt refs of %s: %w", name, err)
			}
		}
	}
	return nil, nil
}

// lacks are those of the objects that are not here. One that is here has all
// that it refers to.
func (repo *repository) lacks(shas []string) (missing []string) {
	repo.packs.RLock()
	defer repo.packs.RUnlock()
	st := openObjects(repo.dir)
	defer st.Close()
	for _, sha := range shas {
		if st.HasEncodedObject(plumbing.NewHash(sha)) != nil {
			missing = append(missing, sha)
		}
	}
	return missing
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
