package source

import (
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing"
)

// target is what of a repository is followed. Where a Config names several,
// the most exact one counts: commit, semver, tag, branch.
type target struct {
	kind targetKind
	name string // of the branch or tag, the range, or the SHA
	in   *semver.Constraints
}

type targetKind string

const (
	toBranch targetKind = "branch"
	toTag    targetKind = "tag"
	toSemver targetKind = "semver"
	toCommit targetKind = "commit"
)

func newTarget(cfg Config) (target, error) {
	switch {
	case cfg.Commit != "":
		sha := strings.ToLower(cfg.Commit)
		if !plumbing.IsHash(sha) {
			return target{}, problem(ErrConfig, "commit %q is no commit: give all 40 hexadecimal digits (git rev-parse prints them)", cfg.Commit)
		}
		return target{kind: toCommit, name: sha}, nil
	case cfg.SemVer != "":
		in, err := semver.NewConstraint(cfg.SemVer)
		if err != nil {
			return target{}, problem(ErrConfig, "semver %q is no range of versions: write it as \"~1.4\", \"1.x\" or \">=1.0.0 <2.0.0\"", cfg.SemVer)
		}
		return target{kind: toSemver, name: cfg.SemVer, in: in}, nil
	case cfg.Tag != "":
		return target{kind: toTag, name: cfg.Tag}, nil
	case cfg.Branch != "":
		return target{kind: toBranch, name: cfg.Branch}, nil
	}
	return target{kind: toBranch, name: "main"}, nil
}

// key tells targets apart in the state of a clone. No branch has a space.
func (t target) key() string {
	if t.kind == toBranch {
		return t.name
	}
	return string(t.kind) + " " + t.name
}

// String is for messages.
func (t target) String() string {
	if t.kind == toSemver {
		return "the newest tag in " + t.name
	}
	return string(t.kind) + " " + t.name
}

// choice is what a target names now.
type choice struct {
	want   plumbing.Hash // what the ref points to: a commit or an annotated tag
	commit plumbing.Hash // zero when the remote does not say what a tag is of
	tag    string
}

// choose finds what is followed among the refs of a repository; peeled are the
// commits of annotated tags, as far as they are known.
func (t target) choose(refs, peeled map[string]plumbing.Hash) (choice, error) {
	switch t.kind {
	case toCommit:
		h := plumbing.NewHash(t.name)
		return choice{want: h, commit: h}, nil
	case toBranch:
		if h, ok := refs[plumbing.NewBranchReferenceName(t.name).String()]; ok {
			return choice{want: h, commit: h}, nil
		}
		return choice{}, noBranch(t.name, names(refs, "refs/heads/"))
	case toTag:
		if c, ok := tagged(t.name, refs, peeled); ok {
			return c, nil
		}
		return choice{}, noTag(fmt.Sprintf("tag %s does not exist", t.name), names(refs, "refs/tags/"))
	}
	tags := names(refs, "refs/tags/")
	tag := newest(tags, t.in)
	if tag == "" {
		return choice{}, noTag("no tag is a version in the range "+t.name, tags)
	}
	c, _ := tagged(tag, refs, peeled)
	return c, nil
}

func tagged(name string, refs, peeled map[string]plumbing.Hash) (choice, bool) {
	full := plumbing.NewTagReferenceName(name).String()
	h, ok := refs[full]
	c := choice{want: h, commit: h, tag: name}
	if p, is := peeled[full]; is {
		c.commit = p
	}
	return c, ok
}

// newest is the tag of the highest version in a range. Between tags of one
// version, with and without a v or with other build metadata, the last by name
// counts, so that the choice does not depend on any order.
func newest(tags []string, in *semver.Constraints) (best string) {
	var high *semver.Version
	for _, tag := range tags {
		v, err := semver.NewVersion(tag)
		if err != nil || !in.Check(v) {
			continue
		}
		if high == nil || v.GreaterThan(high) || v.Equal(high) && tag > best {
			best, high = tag, v
		}
	}
	return best
}

// names lists the refs below a prefix, without it.
func names(refs map[string]plumbing.Hash, prefix string) []string {
	var out []string
	for name := range refs {
		if n, ok := strings.CutPrefix(name, prefix); ok && !strings.HasSuffix(n, "^{}") {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// noBranch names the branches that there are instead.
func noBranch(branch string, others []string) error {
	if len(others) == 0 {
		return problem(ErrEmpty, "the repository has no commits: push the manifests to branch %s; what runs is kept until then", branch)
	}
	return problem(ErrNoBranch, "branch %s does not exist; there is %s: push it, or follow another branch; what runs is kept until then",
		branch, some(others))
}

// noTag names the tags that there are instead, the last ones first.
func noTag(what string, others []string) error {
	if len(others) == 0 {
		return problem(ErrNoTag, "%s; the repository has no tags: push one; what runs is kept until then", what)
	}
	others = slices.Clone(others)
	slices.Sort(others)
	slices.Reverse(others)
	return problem(ErrNoTag, "%s; there is %s: push it, or follow another; what runs is kept until then", what, list5(others))
}

func some(list []string) string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list5(list)
}

func list5(list []string) string {
	named := list[:min(len(list), 5)]
	if n := len(list) - len(named); n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(named, ", "), n)
	}
	return strings.Join(named, ", ")
}
