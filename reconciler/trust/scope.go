package trust

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Op is what a plan does to one object, as far as scopes ask.
type Op struct {
	Group, Kind, Namespace, Name string
	Action                       string // create, update, delete, replace
	// File declares the object, or declared it before it was deleted. Line and
	// Column are 0 for a deletion.
	File         string
	Line, Column int
	// Derived says that the object is rendered from more than its file (CUE,
	// Kustomize, Helm): any new commit may have changed it.
	Derived bool
}

func (o *Op) object() string {
	if o.Namespace == "" {
		return o.Kind + "/" + o.Name
	}
	return o.Kind + "/" + o.Namespace + "/" + o.Name
}

// Scope finds the objects that the new commits must not change: each op is
// judged by the scopes of every commit that changed its file. An op of a file
// that no new commit changed heals drift, and nobody asked for it; a file that
// was declared by others before is not judged again.
func (r *Result) Scope(ops []Op) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	if r.Mode == Off {
		return nil
	}
	for i := range ops {
		op := &ops[i]
		for j := range r.Commits {
			c := &r.Commits[j]
			if c.policy == nil || len(c.policy.scopes) == 0 || c.State != Verified {
				continue // unsigned commits have their own findings
			}
			if _, found := slices.BinarySearch(c.Files, op.File); !found && !op.Derived {
				continue
			}
			if c.policy.allows(c, op) {
				continue
			}
			if len(out) == maxFindings {
				return out
			}
			out = append(out, c.outOfScope(op))
			break // one finding for an object is enough
		}
	}
	return out
}

func (c *Commit) outOfScope(op *Op) v1alpha1.Finding {
	where := "in the namespace " + op.Namespace
	if op.Namespace == "" {
		where = "outside of namespaces"
	}
	verb := map[string]string{"create": "create", "update": "change", "delete": "delete", "replace": "replace"}[op.Action]
	if verb == "" {
		verb = "declare"
	}
	f := v1alpha1.Finding{File: op.File, Line: op.Line, Column: op.Column, Object: op.object(), Rule: RuleScope,
		Message: fmt.Sprintf("commit %s by %s, signed by %s, may not %s a %s %s with this file", short(c.SHA), c.Author, c.Signer, verb, op.Kind, where)}
	if s := c.policy.scopesOf(c, op.File); len(s) > 0 {
		f.Hint = "it may declare " + describe(s)
	} else {
		f.Hint = "no scope of " + File + " speaks of this file and this signer"
	}
	return f
}

// scopesOf are the scopes that speak of a file and a commit.
func (p *Policy) scopesOf(c *Commit, file string) []scope {
	var out []scope
	for _, s := range p.scopes {
		if len(s.paths) > 0 && !slices.ContainsFunc(s.paths, func(x pattern) bool { return x.match(file) }) {
			continue
		}
		if p.includes(s.signers, c.Signer) && (len(s.authors) == 0 || anyWildcard(s.authors, c.authorMail)) {
			out = append(out, s)
		}
	}
	return out
}

func (p *Policy) allows(c *Commit, op *Op) bool {
	return slices.ContainsFunc(p.scopesOf(c, op.File), func(s scope) bool {
		return slices.ContainsFunc(s.allow, func(a allow) bool { return a.covers(op) })
	})
}

// covers says whether an object is one of those that are allowed. Kinds are
// Kind, of any group, or Kind.group, with core for the group without a name.
func (a *allow) covers(op *Op) bool {
	group := op.Group
	if group == "" {
		group = "core"
	}
	kind := slices.ContainsFunc(a.kinds, func(k string) bool {
		want, in, qualified := strings.Cut(k, ".")
		return wildcard(want, op.Kind) && (!qualified || wildcard(in, group))
	})
	if !kind || len(a.names) > 0 && !anyWildcard(a.names, op.Name) {
		return false
	}
	if op.Namespace == "" {
		return a.cluster
	}
	return anyWildcard(a.namespaces, op.Namespace)
}

func describe(scopes []scope) string {
	var parts []string
	for _, s := range scopes {
		for _, a := range s.allow {
			text := strings.Join(a.kinds, ", ")
			if len(a.namespaces) > 0 {
				text += " in " + strings.Join(a.namespaces, ", ")
			}
			if a.cluster {
				text += " outside of namespaces"
			}
			parts = append(parts, text)
		}
	}
	if len(parts) > 4 {
		parts = append(parts[:4], "...")
	}
	return strings.Join(parts, "; ")
}
