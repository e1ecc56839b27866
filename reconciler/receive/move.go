package receive

import "context"

// move makes the push visible: the pack, then each ref that still is where
// the pusher saw it. An atomic push moves all of its refs or none.
func (r *Remote) move(ctx context.Context, repo *repository, q *quarantine, verdicts []verdict, atomic bool) {
	repo.commits.Lock() // so that nobody else's refs are moved and not committed
	repo.move(q, verdicts, atomic)
	r.commit(ctx, repo, verdicts)
	repo.commits.Unlock()
	r.wakeMirrors(repo.name)
	if r.cfg.Pushed == nil {
		return
	}
	for _, v := range verdicts {
		if v.reason == "" {
			r.cfg.Pushed(repo.name, v.name, known(v.sha))
		}
	}
}

func (repo *repository) move(q *quarantine, verdicts []verdict, atomic bool) {
	repo.mu.Lock()
	defer repo.mu.Unlock()
	now, err := readRefs(repo.dir)
	if err != nil {
		for i := range verdicts {
			verdicts[i].err = err
		}
		refuseAll(verdicts, "the remote cannot read its refs")
		return
	}
	for i := range verdicts {
		v := &verdicts[i]
		if current, ok := now[v.name]; v.reason == "" && (ok == v.creates() || ok && current != v.old) {
			v.reason = "fetch first"
		}
	}
	if atomic {
		settle(verdicts)
	}
	kept := false
	for i := range verdicts {
		v := &verdicts[i]
		if v.reason != "" {
			continue
		}
		if v.err = repo.apply(q, v.command, &kept); v.err != nil {
			v.reason = "the remote cannot store the push"
		}
	}
}

// apply moves one ref; the first that needs it brings the pack along.
func (repo *repository) apply(q *quarantine, c command, kept *bool) error {
	if c.deletes() {
		return repo.deleteRef(c.name)
	}
	if !*kept {
		if err := q.promote(); err != nil {
			return err
		}
		*kept = true
	}
	return repo.writeRef(c.name, c.sha)
}
