package receive

import (
	"bytes"
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
	err    error // when the reason is a fault of the remote, not of the push
}

// reply is the answer to a push.
type reply struct {
	w     io.Writer
	flush func() error
	caps  capabilities
}

// remote shows lines to the pusher, now. A client that is gone is noticed
// when the verdicts are written.
func (a reply) remote(lines []string) {
	for _, l := range lines {
		io.WriteString(band{a.w, bandProgress, bandSize(a.caps)}, strings.TrimRight(l, "\n")+"\n")
	}
	a.flush()
}

// report ends the answer.
func (a reply) report(unpack error, verdicts []verdict) error {
	if !a.caps["report-status"] {
		return nil
	}
	var b bytes.Buffer
	status := "ok"
	if unpack != nil {
		status = oneLine(unpack.Error())
	}
	writePacket(&b, "unpack %s\n", status)
	for _, v := range verdicts {
		if v.reason != "" {
			writePacket(&b, "ng %s %s\n", v.name, oneLine(v.reason))
			continue
		}
		writePacket(&b, "ok %s\n", v.name)
	}
	writeFlush(&b)
	size := bandSize(a.caps)
	if _, err := (band{a.w, bandData, size}).Write(b.Bytes()); err != nil {
		return err
	}
	if size == 0 {
		return nil
	}
	return writeFlush(a.w)
}

// oneLine makes a text fit the line of a verdict.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 1000 {
		s = s[:1000] + "..."
	}
	return s
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
	verdicts, err := r.push(req.Context(), repo, cmds, in.r, a, u.GetName())
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
}

// push takes a push in. The error says why its objects were not stored; the
// verdicts then refuse every command.
func (r *Remote) push(ctx context.Context, repo *repository, cmds []command, pack io.Reader, a reply, who string) ([]verdict, error) {
	verdicts := make([]verdict, len(cmds))
	for i, c := range cmds {
		verdicts[i].command = c
	}
	q, err := repo.quarantine(r.branch())
	if err != nil {
		return refuseAll(verdicts, "the remote cannot take pushes now"), err
	}
	defer q.close()
	if err := q.receive(pack, r.cfg.MaxPack); err != nil {
		return refuseAll(verdicts, err.Error()), err
	}
	now, err := repo.refs()
	if err != nil {
		return refuseAll(verdicts, "the remote cannot read its refs"), err
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.reason = r.refuse(v.command, now); v.reason == "" {
			v.reason = r.inspect(q.st, v.command)
		}
	}
	if a.caps["atomic"] {
		settle(verdicts)
	}
	r.check(ctx, repo, q, verdicts, a, who)
	if a.caps["atomic"] {
		settle(verdicts)
	}
	r.move(repo, q, verdicts, a.caps["atomic"])
	return verdicts, nil
}

// inspect returns why the object of a command cannot stand under its ref.
func (r *Remote) inspect(st storer.EncodedObjectStorer, c command) string {
	if c.deletes() {
		return ""
	}
	o, err := st.EncodedObject(plumbing.AnyObject, plumbing.NewHash(c.sha))
	switch {
	case err != nil:
		return "missing objects: " + c.sha
	case strings.HasPrefix(c.name, "refs/heads/") && o.Type() != plumbing.CommitObject:
		return "a branch points to commits only"
	case c.name != r.branch() || c.creates() || r.cfg.AllowForce:
		return ""
	}
	forward, err := reaches(st, plumbing.NewHash(c.sha), plumbing.NewHash(c.old))
	switch {
	case err != nil:
		return err.Error()
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

// move makes the push visible: the pack, then each ref that still is where
// the pusher saw it. An atomic push moves all of its refs or none.
func (r *Remote) move(repo *repository, q *quarantine, verdicts []verdict, atomic bool) {
	repo.move(q, verdicts, atomic)
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
