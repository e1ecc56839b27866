package reconciler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/source"
	"github.com/writ-os/writ/reconciler/trust"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// historian is a source that knows the commits before its newest one.
type historian interface {
	// history brings the commits after base here, and reads them.
	history(ctx context.Context, base, head string) (trust.History, error)
}

// verify asks who has signed the commits since the last one, where the
// repository wants to know. What was applied and healthy once needs no second
// look.
func (r *Reconciler) verify(ctx context.Context, src Source, c Commit, e *entry) ([]v1alpha1.Finding, error) {
	spec := r.spec()
	v := spec.Verification
	if v == nil || trust.Mode(v.Mode) == trust.Off || e.failed != nil {
		return nil, nil
	}
	h, ok := src.(historian)
	if !ok {
		return nil, errors.New("the source has no history to verify")
	}
	bootstrap, findings := r.firstPolicy(v.Secret)
	if len(findings) > 0 {
		return findings, nil
	}
	base := r.applied()
	history, err := h.history(ctx, base, c.SHA)
	if err != nil {
		return nil, err
	}
	e.trust, err = trust.Check(ctx, trust.Input{Mode: trust.Mode(v.Mode), Base: base, Head: c.SHA, Bootstrap: bootstrap,
		History: history, Now: time.Now(), Pinned: spec.Commit != "" || spec.Tag != ""})
	if err != nil {
		return nil, err
	}
	signature := e.trust.Head()
	e.signature = &signature
	if e.trust.Refused() {
		return e.trust.Findings, nil
	}
	return nil, nil
}

// firstPolicy is the policy that holds before a commit has brought one.
func (r *Reconciler) firstPolicy(name string) (*trust.Policy, []v1alpha1.Finding) {
	if name == "" {
		return nil, nil
	}
	data := r.secret(name)[trust.SecretKey]
	if data == nil {
		return nil, []v1alpha1.Finding{{Rule: trust.RuleSignature, Object: "Secret/" + name, Field: "spec.verification.secret",
			Message: fmt.Sprintf("the first trusted keys are in the Secret %s under %s, which is not there", name, trust.SecretKey),
			Hint:    "create the Secret on the server, or take verification out of the Repository"}}
	}
	return trust.Parse("Secret "+name, data)
}

// secret returns the data of a Secret, namespace/name; nil when there is none.
func (r *Reconciler) secret(name string) map[string][]byte {
	return SecretData(r.cfg.Client.Cache(), name)
}

// SecretData returns the data of a Secret, namespace/name; nil when there is
// none.
func SecretData(live plan.Live, name string) map[string][]byte {
	o, ok := live.Get(schema.ResourceFor[*corev1.Secret](), schema.ParseKey(name))
	if !ok {
		return nil
	}
	s, ok := o.(*corev1.Secret)
	if !ok {
		return nil
	}
	return s.Data
}

// allow says who may change what of the plan.
func (r *Reconciler) allow(p *plan.Plan, e *entry) []v1alpha1.Finding {
	if e.trust == nil || e.failed != nil {
		return nil
	}
	ops := make([]trust.Op, 0, len(p.Ops))
	for i := range p.Ops {
		o := &p.Ops[i]
		ops = append(ops, trust.Op{Group: o.Resource.Group, Kind: o.Resource.Kind, Namespace: o.Key.Namespace, Name: o.Key.Name,
			Action: string(o.Action), File: o.File, Line: o.Line, Column: o.Column, Derived: derived(o.File)})
	}
	if findings := e.trust.Scope(ops); e.trust.Mode == trust.Require {
		return findings
	}
	return nil
}

// derived says whether what a file declares is rendered from more than it.
func derived(file string) bool {
	for _, ext := range []string{".yaml", ".yml", ".json"} {
		if strings.HasSuffix(file, ext) {
			return false
		}
	}
	return true
}

// history implements historian.
func (g git) history(ctx context.Context, base, head string) (trust.History, error) {
	if _, err := g.Range(ctx, base, head); err != nil && !errors.Is(err, source.ErrTooLarge) {
		if base == "" || !errors.Is(err, source.ErrMissing) {
			return nil, err
		}
		// The base has gone from the branch; the check says so.
	}
	return gitHistory{g.Source}, nil
}

// gitHistory reads commits for the check of their signatures.
type gitHistory struct{ *source.Source }

// Commit implements trust.History.
func (g gitHistory) Commit(sha string) ([]byte, error) {
	data, err := g.Raw(sha)
	if errors.Is(err, source.ErrMissing) {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return data, err
}

// Changed implements trust.History.
func (g gitHistory) Changed(from, to string) ([]string, error) {
	changes, err := g.Diff(from, to)
	if err != nil {
		return nil, err
	}
	paths := make([]string, len(changes))
	for i := range changes {
		paths[i] = changes[i].Path
	}
	return paths, nil
}

// maxTrustFile bounds the policy of a repository.
const maxTrustFile = 1 << 20

// File implements trust.History.
func (g gitHistory) File(sha, path string) ([]byte, error) {
	t, err := g.Tree(sha)
	if err != nil {
		return nil, err
	}
	f, err := t.File(path)
	if err != nil {
		return nil, err
	}
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(io.LimitReader(in, maxTrustFile))
}
