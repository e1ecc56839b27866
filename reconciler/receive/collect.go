package receive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/reconciler/source/pack"
)

// Collected is what a garbage collection did.
type Collected struct {
	Objects int   // dropped
	Packs   int   // written anew or dropped
	Loose   int   // loose files that went into a pack or were dropped
	Bytes   int64 // fewer on the disk
}

// ErrBusy says that pushes or clones were under way: nothing was dropped, and
// a later try may.
var ErrBusy = errors.New("the repository is in use")

// GC drops the objects of a repository that neither a ref nor Config.Keep needs
// and that are older than Config.Grace, and packs loose ones. What is dropped
// leaves in one step that waits for no one: with a push or a clone under way
// the error is ErrBusy. It is safe to end the process at any moment.
func (r *Remote) GC(ctx context.Context, repository string) (Collected, error) {
	repo := r.repos[repository]
	if repo == nil {
		return Collected{}, fmt.Errorf("collect garbage of %s: not served here", repository)
	}
	var keep []string
	if r.cfg.Keep != nil {
		keep = r.cfg.Keep(repository)
	}
	done, err := repo.collect(ctx, keep, time.Now().Add(-r.cfg.Grace))
	if err != nil {
		return Collected{}, fmt.Errorf("collect garbage of %s: %w", repository, err)
	}
	return done, nil
}

// collect reads while others push, and drops only if the refs are still those
// that it read.
func (repo *repository) collect(ctx context.Context, keep []string, before time.Time) (Collected, error) {
	if !repo.collecting.TryLock() {
		return Collected{}, ErrBusy
	}
	defer repo.collecting.Unlock()
	if err := repo.clearLeftovers(before); err != nil {
		return Collected{}, err
	}
	refs, err := repo.refs()
	if err != nil {
		return Collected{}, err
	}
	dir, err := os.MkdirTemp(repo.incoming, "gc-")
	if err != nil {
		return Collected{}, err
	}
	defer os.RemoveAll(dir)
	w, err := repo.survey(ctx, refs, keep, before)
	if err != nil || w.idle() {
		return Collected{}, err
	}
	base, err := w.write(dir)
	if err != nil {
		return Collected{}, err
	}
	return w.done, repo.drop(w, refs, dir, base)
}

// survey finds what goes and what stays.
func (repo *repository) survey(ctx context.Context, refs map[string]string, keep []string, before time.Time) (*waste, error) {
	repo.packs.RLock()
	defer repo.packs.RUnlock()
	w := &waste{repo: repo}
	if err := w.list(before); err != nil {
		return nil, err
	}
	st := openObjects(repo.dir)
	defer st.Close()
	seen := make(reached)
	for _, sha := range refs {
		if err := seen.add(ctx, st, plumbing.NewHash(sha), true); err != nil {
			return nil, err
		}
	}
	for _, sha := range keep {
		if err := seen.add(ctx, st, plumbing.NewHash(sha), false); err != nil {
			return nil, err
		}
	}
	for _, h := range w.young {
		if err := seen.add(ctx, st, h, false); err != nil {
			return nil, err
		}
	}
	w.sort(seen)
	return w, nil
}

// drop puts the new pack in the place of the files that it replaces. Nobody
// who could rely on what goes is under way: each push that begins later finds
// it gone, and each that has ended is in the refs.
func (repo *repository) drop(w *waste, refs map[string]string, dir, base string) error {
	if !repo.pushes.TryLock() {
		return ErrBusy
	}
	defer repo.pushes.Unlock()
	repo.mu.Lock()
	defer repo.mu.Unlock()
	now, err := readRefs(repo.dir)
	if err != nil {
		return err
	}
	if !maps.Equal(now, refs) || !repo.packs.TryLock() {
		return ErrBusy
	}
	defer repo.packs.Unlock()
	if base != "" {
		from := filepath.Join(dir, base)
		if err := pack.Place(from+".pack", from+".idx", filepath.Join(repo.dir, base)); err != nil {
			return err
		}
	}
	for _, old := range w.spent {
		if old == filepath.Join(repo.dir, base) {
			continue // written anew with the same objects
		}
		// In the reverse of the order in which they came.
		if err := errors.Join(os.Remove(old+".pack"), os.Remove(old+".idx")); err != nil {
			return err
		}
	}
	for _, path := range w.looseGone {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return durable.Sync(filepath.Join(repo.dir, "objects", "pack"))
}

// clearLeftovers removes unfinished work that nobody finishes: a push that
// could not remove its folder.
func (repo *repository) clearLeftovers(before time.Time) error {
	if !repo.pushes.TryLock() {
		return nil
	}
	defer repo.pushes.Unlock()
	entries, err := os.ReadDir(repo.incoming)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		own, _ := filepath.Match(repo.name+"-*", e.Name())
		if err != nil || !own || !info.ModTime().Before(before) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(repo.incoming, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
