package receive

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Rule says what some users may push. What no rule allows is refused.
type Rule struct {
	// Users and Groups are whom the rule is for; "*" is everyone who is signed
	// in. One match is enough.
	Users, Groups []string
	// Refs that may be pushed, in full; one that ends in * stands for all that
	// begin so. Empty for all.
	Refs []string
	// Paths of files and folders that may be changed. Empty for all. What a push
	// changes may be allowed by several rules together.
	Paths []string
	// Force lets a protected branch be rewritten, Delete lets it be deleted.
	Force, Delete bool
}

// is says whether the rule is for a user and a ref.
func (r Rule) is(u user.Info, ref string) bool {
	who := slices.Contains(r.Users, "*") || slices.Contains(r.Groups, "*") || r.names(u)
	return who && (ref == "" || len(r.Refs) == 0 || matches(r.Refs, ref))
}

// names says whether the rule is for a user, and not merely for everyone.
func (r Rule) names(u user.Info) bool {
	return slices.Contains(r.Users, u.GetName()) ||
		slices.ContainsFunc(u.GetGroups(), func(g string) bool { return slices.Contains(r.Groups, g) })
}

func matches(patterns []string, ref string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, all := strings.CutSuffix(p, "*")
		return p == ref || all && strings.HasPrefix(ref, prefix)
	})
}

// rights are what a user may do with one ref.
type rights struct {
	push, force, delete bool
	paths               []string // nil for all
}

// rightsOf adds up the rules for a user and a ref. Without rules the groups
// that may push may push everything, and rewrite and delete what is not
// protected.
func rightsOf(rules []Rule, u user.Info, ref string) rights {
	if rules == nil {
		return rights{push: mayPush(u)}
	}
	var r rights
	everything := false
	for _, rule := range rules {
		if !rule.is(u, ref) {
			continue
		}
		r.push = true
		r.force, r.delete = r.force || rule.Force, r.delete || rule.Delete
		everything = everything || len(rule.Paths) == 0
		r.paths = append(r.paths, rule.Paths...)
	}
	if everything {
		r.paths = nil
	}
	return r
}

// allows says whether a path may be changed.
func (r rights) allows(path string) bool {
	return r.paths == nil || slices.ContainsFunc(r.paths, func(p string) bool {
		p = strings.Trim(p, "/")
		return p == "" || p == "." || path == p || strings.HasPrefix(path, p+"/")
	})
}

// rules are those of a repository now; nil for none.
func (r *Remote) rules(repository string) []Rule {
	if r.cfg.Rules == nil {
		return nil
	}
	return r.cfg.Rules(repository)
}

// mayPushSomewhere says whether a user may push any ref.
func (r *Remote) mayPushSomewhere(repository string, u user.Info) bool {
	return rightsOf(r.rules(repository), u, "").push
}

// mayFetch says whether a user may read a repository, all of it: the groups that
// push do, and whom a rule of pushes names, as nobody changes what they cannot
// read. A rule for everyone who is signed in names nobody: pods are, and so are
// machines with a token to join by. Others it is for Config.MayFetch to let in.
func (r *Remote) mayFetch(ctx context.Context, repository string, u user.Info) bool {
	if mayPush(u) || slices.ContainsFunc(r.rules(repository), func(rule Rule) bool { return rule.names(u) }) {
		return true
	}
	if r.cfg.MayFetch == nil {
		return slices.Contains(u.GetGroups(), viewers)
	}
	return r.cfg.MayFetch(ctx, repository, u)
}

// protected says whether a branch only moves forward: the followed one, and
// those that the Config names.
func (r *Remote) protected(ref string) bool {
	return ref == r.branch() || matches(r.cfg.Protected, ref)
}

// baseOf is the tree that a push is compared with: what the ref had or, for a
// new one, what the followed branch has.
func (r *Remote) baseOf(st storer.EncodedObjectStorer, c command, now map[string]string) plumbing.Hash {
	sha := c.old
	if c.creates() {
		sha = now[r.branch()]
	}
	if sha == "" {
		return plumbing.ZeroHash
	}
	base, err := object.GetCommit(st, peelTag(st, plumbing.NewHash(sha)))
	if err != nil {
		return plumbing.ZeroHash
	}
	return base.TreeHash
}

// forbidden returns why a user may not change what a command changes, or "".
func (r *Remote) forbidden(st storer.EncodedObjectStorer, c command, now map[string]string, may rights, u user.Info) string {
	switch {
	case !may.push:
		return fmt.Sprintf("user %q may not push to %s", u.GetName(), c.name)
	case may.paths == nil:
		return ""
	case c.deletes():
		if may.delete {
			return ""
		}
		return fmt.Sprintf("user %q may not delete %s: the right is to change %s", u.GetName(), c.name, strings.Join(may.paths, ", "))
	}
	tip, err := commitOrNil(st, peelTag(st, plumbing.NewHash(c.sha)))
	if err != nil || tip == nil {
		return fmt.Sprintf("user %q may push commits only", u.GetName())
	}
	d := difference{st: st, may: may.allows}
	if err := d.compare("", r.baseOf(st, c, now), tip.TreeHash); err != nil {
		return err.Error()
	}
	if len(d.found) == 0 {
		return ""
	}
	named := strings.Join(d.found[:min(len(d.found), maxNamed)], ", ")
	if len(d.found) > maxNamed {
		named += " and more"
	}
	return fmt.Sprintf("user %q may not change %s on %s: the right is to change %s", u.GetName(), named, c.name, strings.Join(may.paths, ", "))
}

// maxNamed bounds the paths that a refusal names.
const maxNamed = 3

// difference finds paths that differ between two trees and are not allowed,
// some of them.
type difference struct {
	st    storer.EncodedObjectStorer
	may   func(path string) bool
	found []string
	depth int
}

func (d *difference) compare(folder string, a, b plumbing.Hash) error {
	if a == b || len(d.found) > maxNamed {
		return nil
	}
	if d.depth == maxDepth { // what is pushed is not so deep; what was there before it may be
		return fmt.Errorf("folders lie in each other more than %d deep in the commit before this one: have somebody without spec.pushes.paths remove %s", maxDepth, folder[:min(len(folder), 100)])
	}
	d.depth++
	defer func() { d.depth-- }()
	was, err := d.entries(a)
	if err != nil {
		return err
	}
	is, err := d.entries(b)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(was)+len(is))
	for n := range was {
		names = append(names, n)
	}
	for n := range is {
		if _, both := was[n]; !both {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		if err := d.entry(folder+n, was[n], is[n]); err != nil {
			return err
		}
	}
	return nil
}

func (d *difference) entry(path string, was, is entry) error {
	if was.hash == is.hash && was.mode == is.mode {
		return nil
	}
	var from, to plumbing.Hash
	if was.mode == filemode.Dir {
		from = was.hash
	}
	if is.mode == filemode.Dir {
		to = is.hash
	}
	file := was.name != "" && was.mode != filemode.Dir || is.name != "" && is.mode != filemode.Dir
	if file && !d.may(path) {
		d.found = append(d.found, path)
	}
	return d.compare(path+"/", from, to)
}

func (d *difference) entries(h plumbing.Hash) (map[string]entry, error) {
	if h.IsZero() {
		return nil, nil
	}
	list, err := readTree(d.st, h)
	m := make(map[string]entry, len(list))
	for _, e := range list {
		m[e.name] = e
	}
	return m, err
}
