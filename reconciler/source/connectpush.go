package source

import (
	"context"
	"errors"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// Update is one ref to move at a remote; "" is no object.
type Update struct{ Ref, Old, New string }

// Push moves refs of the remote. plan decides which, from those that the remote
// has, and returns the pack that they need; no updates are no push. It returns
// the reasons of refs that the remote refused, and an error when it took none
// in. ctx bounds it.
func (r *Remote) Push(ctx context.Context, plan func(has map[string]string) ([]Update, io.ReadCloser, error)) (refused map[string]string, err error) {
	s, err := r.r.push(ctx)
	if err != nil {
		return nil, r.r.explain(ctx, err)
	}
	defer s.Close()
	refs, err := s.AdvertisedReferencesContext(ctx)
	has := make(map[string]string)
	switch {
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		refs = packp.NewAdvRefs()
	case err != nil:
		return nil, r.r.explain(ctx, err)
	}
	for name, h := range refs.References {
		has[name] = h.String()
	}
	updates, pack, err := plan(has)
	if pack != nil {
		defer pack.Close()
	}
	if err != nil || len(updates) == 0 {
		return nil, err
	}
	req := packp.NewReferenceUpdateRequest()
	for _, c := range []capability.Capability{capability.ReportStatus, capability.DeleteRefs, capability.OFSDelta} {
		if refs.Capabilities.Supports(c) {
			_ = req.Capabilities.Set(c)
		}
	}
	for _, u := range updates {
		req.Commands = append(req.Commands, &packp.Command{Name: plumbing.ReferenceName(u.Ref), Old: plumbing.NewHash(u.Old), New: plumbing.NewHash(u.New)})
	}
	req.Packfile = pack
	report, err := s.ReceivePack(ctx, req)
	if report == nil && err != nil {
		return nil, r.r.explain(ctx, err)
	}
	return r.refusals(report)
}

// refusals reads what the remote said of each ref.
func (r *Remote) refusals(report *packp.ReportStatus) (map[string]string, error) {
	refused := make(map[string]string)
	if report == nil {
		return refused, nil
	}
	for _, c := range report.CommandStatuses {
		if c.Status != "ok" {
			refused[c.ReferenceName.String()] = c.Status
		}
	}
	if report.UnpackStatus != "ok" && len(refused) == 0 {
		return refused, problem(ErrUnreachable, "%s does not take the push: %s", r.Name(), r.r.scrub(report.UnpackStatus))
	}
	return refused, nil
}
