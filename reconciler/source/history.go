package source

import (
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

const (
	// maxHistory bounds the commits that are looked at in one question.
	maxHistory = 10_000
	// clockSkew is how far the clocks of committers may be apart.
	clockSkew = 7 * 24 * time.Hour
	// maxTags bounds a chain of tags that are about tags.
	maxTags = 16
)

func commitOf(c *object.Commit) Commit {
	out := Commit{SHA: c.Hash.String(), Author: c.Author.Name + " <" + c.Author.Email + ">",
		Message: strings.TrimRight(c.Message, "\n"), Time: c.Committer.When.UTC()}
	if len(c.ParentHashes) > 0 {
		out.Parent = c.ParentHashes[0].String()
	}
	return out
}

// peel follows annotated tags to their commit.
func (o *objects) peel(h plumbing.Hash, of target) (plumbing.Hash, error) {
	for range maxTags {
		kind, to, err := o.about(h)
		if err != nil {
			return h, err
		}
		switch kind {
		case plumbing.CommitObject:
			return h, nil
		case plumbing.TagObject:
			h = to
			continue
		}
		return h, problem(ErrNoCommit, "%s is of a %s, not of a commit: tag a commit", of, kind)
	}
	return h, problem(ErrNoCommit, "%s is a tag of a tag of a tag, more than %d deep: tag a commit", of, maxTags)
}

// rewritten says whether a target was reset between two answers: a branch
// whose last head is no ancestor of this one, or a tag that was moved. Another
// tag of a range is none: versions need not follow from each other.
func (t target) rewritten(o *objects, was, now found) (bool, error) {
	if was.head.IsZero() {
		return false, nil
	}
	if t.kind != toBranch {
		return was.tag == now.tag && was.head != now.head, nil
	}
	c, err := o.commit(now.head)
	if err != nil {
		return false, err
	}
	yes, _ := o.descends(c, was.head)
	return !yes, nil
}

// descends says whether ancestor is in the history of c as far as that is
// here; whole says that no commit was missed on the way. Commits much older
// than the ancestor cannot descend from it and are not looked into.
func (o *objects) descends(c *object.Commit, ancestor plumbing.Hash) (yes, whole bool) {
	if c.Hash == ancestor {
		return true, true
	}
	var oldest time.Time
	if a, err := o.commit(ancestor); err == nil {
		oldest = a.Committer.When.Add(-clockSkew)
	}
	whole = true
	seen := map[plumbing.Hash]bool{c.Hash: true}
	queue := []*object.Commit{c}
	for ; len(queue) > 0 && len(seen) < maxHistory; queue = queue[1:] {
		for _, p := range queue[0].ParentHashes {
			if p == ancestor {
				return true, true
			}
			if seen[p] {
				continue
			}
			seen[p] = true
			parent, err := o.commit(p)
			switch {
			case err != nil:
				whole = false
			case parent.Committer.When.After(oldest):
				queue = append(queue, parent)
			}
		}
	}
	return false, whole && len(queue) == 0
}

// path finds a commit in the history of any of the tips and says how many
// commits lie between.
func (o *objects) path(tips []plumbing.Hash, to plumbing.Hash) (steps int, ok bool) {
	seen := make(map[plumbing.Hash]bool)
	for level := tips; len(level) > 0 && len(seen) < maxProbe; steps++ {
		var next []plumbing.Hash
		for _, h := range level {
			if h == to {
				return steps, true
			}
			if seen[h] {
				continue
			}
			seen[h] = true
			if c, err := o.commit(h); err == nil {
				next = append(next, c.ParentHashes...)
			}
		}
		level = next
	}
	return 0, false
}

// maxProbe bounds the commits among which a pinned one is looked for.
const maxProbe = 1_000_000
