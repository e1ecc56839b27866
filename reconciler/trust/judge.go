package trust

import (
	"context"
	"fmt"
	"slices"
)

// judge checks all commits of a stretch, each by the policies that were in
// force before it, and adds them to the result.
func (c *check) judge(ctx context.Context, s *stretch, base *Policy) error {
	own, err := ownChanges(c.in.History, s)
	if err != nil {
		return err
	}
	after := make([]*Policy, len(s.commits))
	for i, o := range s.commits {
		if err := ctx.Err(); err != nil {
			return err
		}
		before := policiesBefore(s, after, o, base)
		k := c.known(o, before[0].verify(o, c.in.Now), own[i], before[0])
		for _, p := range before[1:] {
			if s := p.verify(o, c.in.Now); s.State != Verified {
				k.Signature = s
			}
		}
		c.res.Commits = append(c.res.Commits, k)
		if after[i], err = c.after(o, own[i], before[0]); err != nil {
			return err
		}
		if after[i] == nil {
			after[i] = base
		}
	}
	c.res.Policy = after[len(after)-1]
	for i := range s.commits {
		k := &c.res.Commits[i]
		c.signer(k, policiesBefore(s, after, s.commits[i], base), func() []string { return c.approvers(s, i) })
	}
	return nil
}

// policiesBefore are the policies by which a commit is judged: that of its
// parent. A parent that is not new counts as the base, for the policy that it
// had itself may have been replaced since. A merge is judged by what new
// commits have made of the policy; if both sides have, by both.
func policiesBefore(s *stretch, after []*Policy, o *object, base *Policy) []*Policy {
	var out []*Policy
	for _, parent := range o.parents {
		if i, ok := s.in[parent]; ok && after[i] != base && !slices.Contains(out, after[i]) {
			out = append(out, after[i])
		}
	}
	if len(out) == 0 {
		return []*Policy{base}
	}
	return out
}

// approvers are those who signed a commit, and those who signed a merge that
// brought it to another branch: they have vouched for it.
func (c *check) approvers(s *stretch, i int) []string {
	out := []string{c.res.Commits[i].Signer}
	for j := i + 1; j < len(s.commits); j++ {
		m, k := s.commits[j], &c.res.Commits[j]
		if len(m.parents) > 1 && k.State == Verified && !s.reaches(m.parents[0], i) && s.reaches(m.sha, i) {
			out = append(out, k.Signer)
		}
	}
	return out
}

// signer checks that a commit is signed, by somebody who may change its files
// by each of the policies. approvers are those who vouch for it, the signer
// first.
func (c *check) signer(k *Commit, policies []*Policy, approvers func() []string) {
	name := "commit " + short(k.SHA)
	if k.State != Verified {
		hint := "sign it: git commit --amend -S, and set commit.gpgSign for the next ones"
		if k.State == Unknown {
			hint = "sign with a key of the policy, or have the key added to " + File
		}
		file := ""
		if len(k.Files) == 1 {
			file = k.Files[0]
		}
		c.find(RuleSignature, file, fmt.Sprintf("%s by %s is not trusted: %s", name, k.Committer, k.Message), hint)
		return
	}
	const shown = 5 // of the files of one commit
	n := 0
	for _, path := range k.Files {
		why, hint := refusal(policies, path, k.Signer, approvers)
		if why == "" {
			continue
		}
		if n++; n <= shown {
			c.find(RuleSigner, path, name+" changes this file, and "+why, hint)
		}
	}
	if n > shown {
		c.find(RuleSigner, "", fmt.Sprintf("%s changes %d more files that its signer %s may not change", name, n-shown, k.Signer), "")
	}
}

// refusal says why a signer may not change a path; "" when all policies allow
// it.
func refusal(policies []*Policy, path, signer string, approvers func() []string) (why, hint string) {
	for _, p := range policies {
		r := p.ruleFor(path)
		if r == nil {
			continue
		}
		at := fmt.Sprintf("rule for %s in line %d of %s", r.path.text, r.line, File)
		if !p.includes(r.signers, signer) {
			return fmt.Sprintf("its signer %s may not: the %s asks for %s", signer, at, p.named(r.signers)), "have it signed by one of them, or move the change to files of " + signer
		}
		if r.minimum < 2 {
			continue
		}
		have := []string{}
		for _, a := range approvers() {
			if p.includes(r.signers, a) && !slices.Contains(have, a) {
				have = append(have, a)
			}
		}
		if len(have) < r.minimum {
			return fmt.Sprintf("the %s asks for %d signers of %s, and has %s", at, r.minimum, p.named(r.signers), p.named(have)),
				"let another one merge it with git merge -S --no-ff"
		}
	}
	return "", ""
}
