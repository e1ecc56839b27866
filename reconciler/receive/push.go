package receive

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"k8s.io/apiserver/pkg/authentication/user"
)

// verdict is what became of one command; no reason means that the ref moved.
type verdict struct {
	command
	reason string
	lines  []string // that Check said
	err    error    // when the reason is a fault of the remote, not of the push
}

// receive serves git-receive-pack.
func (r *Remote) receive(w http.ResponseWriter, req *http.Request, repo *repository, in *packetReader, u user.Info) {
	cmds, caps, err := parseCommands(in)
	if err != nil {
		badRequest(w, err)
		return
	}
	if len(cmds) == 0 {
		return
	}
	a := reply{w: w, flush: http.NewResponseController(w).Flush, caps: caps}
	verdicts, err := r.push(req.Context(), repo, cmds, in.r, a, u)
	noteVerdicts(req.Context(), verdicts)
	for _, v := range verdicts {
		log := r.cfg.Log.With("repository", repo.name, "ref", v.name, "commit", v.sha, "user", u.GetName())
		switch {
		case v.err != nil || err != nil:
			log.WarnContext(req.Context(), "push failed", "reason", v.reason, "err", errors.Join(v.err, err))
		case v.reason != "":
			log.InfoContext(req.Context(), "push refused", "reason", v.reason)
		default:
			log.InfoContext(req.Context(), "push accepted")
		}
	}
	if err := a.report(err, verdicts); err != nil {
		r.cfg.Log.WarnContext(req.Context(), "answer push", "repository", repo.name, "err", err)
	}
	r.tidy(req.Context(), repo)
}

// push takes a push in. The error says why its objects were not stored; the
// verdicts then refuse every command.
func (r *Remote) push(ctx context.Context, repo *repository, cmds []command, pack io.Reader, a reply, u user.Info) ([]verdict, error) {
	rules := r.rules(repo.name)
	return r.takeIn(ctx, repo, cmds, pack, a, u, func(ref string) rights { return rightsOf(rules, u, ref) })
}

// takeIn takes a push in; mayFor says what the pusher may do with a ref.
func (r *Remote) takeIn(ctx context.Context, repo *repository, cmds []command, pack io.Reader, a reply, u user.Info, mayFor func(ref string) rights) ([]verdict, error) {
	verdicts := make([]verdict, len(cmds))
	for i, c := range cmds {
		verdicts[i].command = c
	}
	repo.pushes.RLock() // objects that nothing refers to stay as long as a push may
	defer repo.pushes.RUnlock()
	q, err := repo.quarantine(r.branch())
	if err != nil {
		return refuseAll(verdicts, "the remote cannot take pushes now"), err
	}
	defer q.close()
	if err := q.receive(ctx, r.cfg.Sandbox, pack, r.limits()); err != nil {
		return refuseAll(verdicts, err.Error()), err
	}
	now, err := repo.refs()
	if err != nil {
		return refuseAll(verdicts, "the remote cannot read its refs"), err
	}
	for i := range verdicts {
		v := &verdicts[i]
		may := mayFor(v.name)
		if v.reason = r.refuse(v.command, now, may); v.reason == "" {
			v.reason = r.inspect(q.st, v.command, may)
		}
		if v.reason == "" {
			v.reason = r.forbidden(q.st, v.command, now, may, u)
		}
	}
	if a.caps["atomic"] {
		settle(verdicts)
	}
	r.check(ctx, repo, q, verdicts, a, u.GetName())
	if a.caps["atomic"] {
		settle(verdicts)
	}
	r.move(ctx, repo, q, verdicts, a.caps["atomic"])
	return verdicts, nil
}

// inspect returns why the object of a command cannot stand under its ref.
func (r *Remote) inspect(st storer.EncodedObjectStorer, c command, may rights) string {
	if c.deletes() {
		return ""
	}
	o, err := st.EncodedObject(plumbing.AnyObject, plumbing.NewHash(c.sha))
	switch {
	case err != nil:
		return "missing objects: " + c.sha
	case strings.HasPrefix(c.name, "refs/heads/") && o.Type() != plumbing.CommitObject:
		return "a branch points to commits only"
	case !r.protected(c.name) || c.creates() || r.cfg.AllowForce || may.force:
		return ""
	}
	forward, err := reaches(st, plumbing.NewHash(c.sha), plumbing.NewHash(c.old))
	switch {
	case err != nil:
		return err.Error()
	case !forward && c.name != r.branch():
		return "non-fast-forward: protected branch; add a commit instead of rewriting it"
	case !forward:
		return "non-fast-forward: the cluster follows this branch; add a commit (git revert) instead of rewriting it"
	}
	return ""
}

// reaches says whether old is among the ancestors of tip.
func reaches(st storer.EncodedObjectStorer, tip, old plumbing.Hash) (bool, error) {
	q := newCommitQueue(st)
	if err := q.push(tip); err != nil {
		return false, err
	}
	for c := q.pop(); c != nil; c = q.pop() {
		if c.Hash == old {
			return true, nil
		}
		for _, p := range c.ParentHashes {
			if err := q.push(p); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// check asks Check about each command that still stands.
func (r *Remote) check(ctx context.Context, repo *repository, q *quarantine, verdicts []verdict, a reply, who string) {
	if r.cfg.Check == nil {
		return
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.reason != "" {
			continue
		}
		p := Push{Repository: repo.name, Ref: v.name, User: who, Dir: q.dir, Old: known(v.old), New: known(v.sha)}
		lines, err := r.cfg.Check(ctx, p)
		a.remote(lines)
		v.lines = lines
		if err != nil {
			v.reason = err.Error()
		}
		if v.reason == "" && ctx.Err() != nil {
			v.reason = "the client went away"
		}
	}
}

func known(sha string) string {
	if sha == zeroSHA {
		return ""
	}
	return sha
}

// settle refuses the whole of an atomic push when a part was refused.
func settle(verdicts []verdict) {
	for _, v := range verdicts {
		if v.reason != "" {
			refuseAll(verdicts, "atomic push failed")
			return
		}
	}
}

// refuseAll refuses what still stands.
func refuseAll(verdicts []verdict, reason string) []verdict {
	for i := range verdicts {
		if verdicts[i].reason == "" {
			verdicts[i].reason = reason
		}
	}
	return verdicts
}
