package source

import (
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

const (
	// maxHistory bounds the commits that are looked at for an ancestor.
	maxHistory = 10_000
	// clockSkew is how far the clocks of committers may be apart.
	clockSkew = 7 * 24 * time.Hour
)

func commitOf(c *object.Commit) Commit {
	out := Commit{SHA: c.Hash.String(), Author: c.Author.Name + " <" + c.Author.Email + ">",
		Message: strings.TrimRight(c.Message, "\n"), Time: c.Committer.When.UTC()}
	if len(c.ParentHashes) > 0 {
		out.Parent = c.ParentHashes[0].String()
	}
	return out
}

// descends says whether ancestor is in the history of c as far as that is
// here. Commits much older than the ancestor cannot descend from it and are
// not looked into.
func (o *objects) descends(c *object.Commit, ancestor plumbing.Hash) bool {
	if c.Hash == ancestor {
		return true
	}
	var oldest time.Time
	if a, err := o.commit(ancestor); err == nil {
		oldest = a.Committer.When.Add(-clockSkew)
	}
	seen := map[plumbing.Hash]bool{c.Hash: true}
	for queue := []*object.Commit{c}; len(queue) > 0 && len(seen) < maxHistory; queue = queue[1:] {
		for _, p := range queue[0].ParentHashes {
			if p == ancestor {
				return true
			}
			if seen[p] {
				continue
			}
			seen[p] = true
			parent, err := o.commit(p)
			if err == nil && parent.Committer.When.After(oldest) {
				queue = append(queue, parent)
			}
		}
	}
	return false
}
