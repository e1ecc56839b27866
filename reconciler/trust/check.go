package trust

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Mode says what becomes of findings.
type Mode string

// The modes of spec.verification.mode.
const (
	Off     Mode = "Off"     // nothing is looked at
	Warn    Mode = "Warn"    // findings are told, and the commit enters
	Require Mode = "Require" // a finding refuses the commit
)

// The rules of this package's findings.
const (
	RuleSignature = "Signature" // unsigned, or by an unknown key, or bad
	RuleSigner    = "Signer"    // signed by one who may not change this
	RuleScope     = "Scope"     // the file may not declare this
	RuleDowngrade = "Downgrade" // the branch does not go forward
)

// Input is everything that a decision depends on.
type Input struct {
	Mode Mode
	// Base is the commit that was applied last; "" before the first. Head is
	// the one that wants to enter.
	Base, Head string
	// Bootstrap is the policy of the Secret. It holds where the base has none.
	Bootstrap *Policy
	// Trusted is the policy of the base, where the caller has kept it; it goes
	// before that which History has. It is needed only when the base has gone
	// from the repository: without it such a head is refused.
	Trusted *Policy
	History History
	// Now is when the head is looked at.
	Now time.Time
	// Pinned says that the Repository names the commit or the tag itself: who
	// may write that may go back. AllowRewrite is that of the Repository; the
	// policy may allow it too.
	Pinned, AllowRewrite bool
}

// Commit is what is known of one commit.
type Commit struct {
	SHA, Author, Committer, Title string
	Time                          time.Time
	Signature
	// Files are the paths that the commit decided itself, sorted.
	Files []string

	authorMail string
	policy     *Policy // in force before it
}

// Result is the decision.
type Result struct {
	Mode Mode
	// Commits are the new ones, parents before children. When the head is not
	// new, or is the first commit of all, it is the only one.
	Commits []Commit
	// Findings are all that is wrong, at most 100.
	Findings []v1alpha1.Finding
	// Policy is in force after the head; nil when there is none.
	Policy *Policy
}

// Refused says whether the head must not enter.
func (r *Result) Refused() bool { return r.Mode == Require && len(r.Findings) > 0 }

// Head returns what is known of the head; its state is Off when nothing was
// looked at.
func (r *Result) Head() v1alpha1.CommitSignature {
	if len(r.Commits) == 0 {
		return v1alpha1.CommitSignature{State: "Off"}
	}
	c := r.Commits[len(r.Commits)-1]
	return v1alpha1.CommitSignature{State: string(c.State), Key: c.Key, Signer: c.Signer, Message: c.Message}
}

// Check judges the commits between base and head. The error is that of a
// repository that cannot be read now; what will not become better by itself is
// a finding.
func Check(ctx context.Context, in Input) (*Result, error) {
	c := &check{in: in, res: &Result{Mode: in.Mode}, r: &reader{h: in.History, seen: map[string]*object{}}}
	if in.Mode == Off {
		return c.res, nil
	}
	err := c.run(ctx)
	c.wrongBase()
	var broken *brokenError
	switch {
	case errors.Is(err, errTooLong):
		c.find(RuleSignature, "", fmt.Sprintf("there are more than %d commits between %s and %s, which is more than can be checked", maxRange, short(in.Base), short(in.Head)),
			"push them in several steps")
	case errors.As(err, &broken):
		c.find(RuleSignature, "", broken.Error(), "rewrite the commit")
	case err != nil:
		return nil, err
	}
	return c.res, nil
}

type check struct {
	in     Input
	res    *Result
	r      *reader
	broken []v1alpha1.Finding // in the policy of the base
}

func (c *check) find(rule, file, message, hint string) {
	if len(c.res.Findings) < maxFindings {
		c.res.Findings = append(c.res.Findings, v1alpha1.Finding{File: file, Rule: rule, Message: message, Hint: hint})
	}
}

func (c *check) run(ctx context.Context) error {
	head, err := c.r.commit(c.in.Head)
	if err != nil {
		return err
	}
	base, gone, err := c.basePolicy()
	if err != nil {
		return err
	}
	if gone {
		c.res.Commits = []Commit{c.known(head, Signature{State: Unknown, Message: "the trusted policy is gone"}, nil, nil)}
		c.find(RuleDowngrade, "", fmt.Sprintf("the applied commit %s is no longer in the repository, so the history was rewritten and the policy that it had cannot be read", short(c.in.Base)),
			"push the commit again, on any branch that is followed; or name the new one in spec.commit of the Repository")
		return nil
	}
	if base == nil {
		c.find(RuleSignature, "", "no key is trusted yet", "put the first policy under the key "+SecretKey+" into the Secret of spec.verification.secret")
		c.res.Commits = []Commit{c.known(head, Signature{State: Unknown, Message: "no key is trusted yet"}, nil, nil)}
		return nil
	}
	c.res.Policy = base
	if c.in.Base == "" {
		return c.whole(head, base)
	}
	s, err := c.r.walk(ctx, c.in.Base, c.in.Head)
	if err != nil {
		return err
	}
	switch s.relation {
	case same:
		c.res.Commits = []Commit{c.known(head, base.verify(head, c.in.Now), nil, base)}
		return nil
	case older:
		return c.older(head, base)
	case rewritten:
		return c.rewritten(ctx, head, base, s)
	}
	return c.judge(ctx, s, base)
}

// basePolicy is that of the applied commit; where it has none, that of the
// Secret. That of the Secret never takes the place of one that cannot be found:
// it may trust keys that were taken out since.
func (c *check) basePolicy() (p *Policy, gone bool, err error) {
	switch {
	case c.in.Base == "":
		return c.in.Bootstrap, false, nil
	case c.in.Trusted != nil:
		return c.in.Trusted, false, nil
	}
	if _, err := c.r.commit(c.in.Base); missing(err) {
		return c.in.Bootstrap, !c.in.Pinned, nil
	} else if err != nil {
		return nil, false, err
	}
	data, err := c.in.History.File(c.in.Base, File)
	switch {
	case missing(err):
		return c.in.Bootstrap, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("read %s of %s: %w", File, short(c.in.Base), err)
	}
	p, c.broken = Parse(File, data)
	if p == nil {
		// It came while nothing was required. Until it is put right, nothing
		// else enters, and that of the Secret says who may.
		return c.in.Bootstrap, false, nil
	}
	return p, false, nil
}

// wrongBase tells of a policy of the base that is wrong and that no new commit
// has put right.
func (c *check) wrongBase() {
	for _, k := range c.res.Commits {
		if slices.Contains(k.Files, File) {
			return
		}
	}
	c.res.Findings = append(c.res.Findings, c.broken[:min(len(c.broken), max(0, maxFindings-len(c.res.Findings)))]...)
}

// whole judges the first commit of all: who signed it vouches for every file
// that it has, whatever its history is.
func (c *check) whole(head *object, p *Policy) error {
	paths, err := c.in.History.Changed("", head.sha)
	if err != nil {
		return fmt.Errorf("read the files of %s: %w", short(head.sha), err)
	}
	slices.Sort(paths)
	k := c.known(head, p.verify(head, c.in.Now), paths, p)
	c.res.Commits = []Commit{k}
	c.signer(&k, []*Policy{p}, func() []string { return []string{k.Signer} })
	return c.adopt(head, paths)
}

// adopt reads the policy that a commit brings.
func (c *check) adopt(o *object, paths []string) error {
	p, err := c.after(o, paths, c.res.Policy)
	if err == nil {
		c.res.Policy = p
	}
	return err
}

// after is the policy in force after a commit: the one before, or that which
// the commit has written. One that is wrong is found, and changes nothing.
func (c *check) after(o *object, paths []string, before *Policy) (*Policy, error) {
	if !slices.Contains(paths, File) {
		return before, nil
	}
	data, err := c.in.History.File(o.sha, File)
	switch {
	case missing(err):
		return c.in.Bootstrap, nil
	case err != nil:
		return nil, fmt.Errorf("read %s of %s: %w", File, short(o.sha), err)
	}
	p, findings := Parse(File, data)
	if p == nil {
		c.res.Findings = append(c.res.Findings, findings[:min(len(findings), max(0, maxFindings-len(c.res.Findings)))]...)
		return before, nil
	}
	return p, nil
}

func (c *check) older(head *object, p *Policy) error {
	c.res.Commits = []Commit{c.known(head, p.verify(head, c.in.Now), nil, p)}
	if !c.in.Pinned {
		c.find(RuleDowngrade, "", fmt.Sprintf("the branch was set back to %s, which is older than the applied commit %s", short(head.sha), short(c.in.Base)),
			fmt.Sprintf("to go back, commit it: git revert %s..%s; or name the commit in spec.commit of the Repository", short(head.sha), short(c.in.Base)))
	}
	return nil
}

// rewritten judges a branch that was reset. What the applied commit had and
// the head has not was dropped by who signed the head.
func (c *check) rewritten(ctx context.Context, head *object, p *Policy, s *stretch) error {
	if !c.in.Pinned && !c.in.AllowRewrite && !p.AllowRewrite {
		c.res.Commits = []Commit{c.known(head, p.verify(head, c.in.Now), nil, p)}
		c.find(RuleDowngrade, "", fmt.Sprintf("%s does not descend from the applied commit %s: the branch was rewritten", short(head.sha), short(c.in.Base)),
			fmt.Sprintf("rebase onto it (git rebase --onto %s), or allow it with allowRewrite: true in %s", short(c.in.Base), File))
		return nil
	}
	if err := c.judge(ctx, s, p); err != nil {
		return err
	}
	from := c.in.Base
	if _, err := c.r.commit(from); missing(err) {
		from = "" // it is gone, so who signed the head answers for every file
	}
	paths, err := c.in.History.Changed(from, head.sha)
	if err != nil {
		return fmt.Errorf("compare %s and %s: %w", short(c.in.Base), short(head.sha), err)
	}
	slices.Sort(paths)
	last := &c.res.Commits[len(c.res.Commits)-1]
	last.Files = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(last.Files), paths...))))
	c.signer(&Commit{SHA: last.SHA, Signature: last.Signature, Files: paths}, []*Policy{p}, func() []string { return []string{last.Signer} })
	return nil
}

// known is a commit with what is known of it.
func (c *check) known(o *object, s Signature, files []string, p *Policy) Commit {
	return Commit{SHA: o.sha, Author: o.author.String(), Committer: o.committer.String(), Title: o.title, Time: o.committer.when,
		Signature: s, Files: files, authorMail: o.author.mail, policy: p}
}
