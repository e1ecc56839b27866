package source

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// Remote is a repository on another host, for those who copy all of it.
type Remote struct{ r *remote }

// Connect returns a remote; it asks nothing. url is https://, http:// or
// ssh://. Errors are ErrConfig.
func Connect(url string, auth Auth) (*Remote, error) {
	loc, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if loc.scheme == "file" {
		return nil, problem(ErrConfig, "a repository on this machine cannot be copied so: give an https:// or ssh:// URL")
	}
	r, err := newRemote(loc, target{kind: toBranch, name: "main"}, auth)
	if err != nil {
		return nil, err
	}
	return &Remote{r}, nil
}

// Name is the remote's address without user and password.
func (r *Remote) Name() string { return r.r.loc.name }

// Close lets go of idle connections.
func (r *Remote) Close() { r.r.idle() }

// Refs returns the branches and tags of the remote by their full names, to what
// they point; none of an empty repository. ctx bounds it.
func (r *Remote) Refs(ctx context.Context) (map[string]string, error) {
	s, refs, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out := make(map[string]string)
	if refs == nil {
		return out, nil
	}
	for name, h := range refs.References {
		if n := plumbing.ReferenceName(name); n.IsBranch() || n.IsTag() {
			out[name] = h.String()
		}
	}
	return out, nil
}

// Fetch returns the pack that brings wants to who has haves. The caller closes
// it; ctx bounds the reading too.
func (r *Remote) Fetch(ctx context.Context, wants, haves []string) (io.ReadCloser, error) {
	s, refs, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	if refs == nil {
		_ = s.Close()
		return nil, noBranch("main", nil)
	}
	a := ask{}
	for _, w := range wants {
		a.wants = append(a.wants, plumbing.NewHash(w))
	}
	req := a.request(refs)
	for _, h := range haves {
		req.Haves = append(req.Haves, plumbing.NewHash(h))
	}
	resp, err := s.UploadPack(ctx, req)
	if err != nil {
		_ = s.Close()
		return nil, r.r.explain(ctx, err)
	}
	return &packReader{unpack(req, resp), resp, s}, nil
}

// open begins a conversation; refs are nil of an empty repository.
func (r *Remote) open(ctx context.Context) (session, *packp.AdvRefs, error) {
	s, err := r.r.dial(ctx)
	if err != nil {
		return nil, nil, r.r.explain(ctx, err)
	}
	refs, err := s.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return s, nil, nil
	}
	if err != nil {
		_ = s.Close()
		return nil, nil, r.r.explain(ctx, err)
	}
	return s, refs, nil
}

// packReader closes a response and its session.
type packReader struct {
	io.Reader
	resp io.Closer
	s    session
}

func (p *packReader) Close() error { return errors.Join(p.resp.Close(), p.s.Close()) }

// Pause is how long to wait after a number of failures in a row: interval,
// doubled with each up to 5 minutes, and a tenth more or less. random is in
// [0, 1).
func Pause(interval time.Duration, failures int, random float64) time.Duration {
	for ; failures > 0 && interval < maxInterval; failures-- {
		interval = min(2*interval, maxInterval)
	}
	return time.Duration(float64(interval) * (0.9 + 0.2*random))
}
