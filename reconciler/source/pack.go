package source

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// request asks for a head: for it alone when nothing is here, else for what
// came since.
func request(refs *packp.AdvRefs, head plumbing.Hash, has state) *packp.UploadPackRequest {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	if refs.Capabilities.Supports(capability.NoProgress) {
		_ = req.Capabilities.Set(capability.NoProgress)
	}
	req.Wants = []plumbing.Hash{head}
	shallow := refs.Capabilities.Supports(capability.Shallow)
	if shallow {
		_ = req.Capabilities.Set(capability.Shallow)
	}
	switch {
	case !has.head().IsZero():
		req.Haves = []plumbing.Hash{has.head()}
		for _, s := range has.Shallow {
			if shallow {
				req.Shallows = append(req.Shallows, plumbing.NewHash(s))
			}
		}
	case shallow:
		req.Depth = packp.DepthCommits(1)
	}
	return req
}

// receive stores the pack that answers a request in dir, through to the disk,
// and returns the commits whose parents are not in it.
func (c *clone) receive(ctx context.Context, s session, dir string, req *packp.UploadPackRequest) (shallow []string, err error) {
	defer func() {
		if err != nil {
			c.dir.sweep(dir)
			err = c.remote.explain(ctx, err)
		}
	}()
	resp, err := s.UploadPack(ctx, req)
	if errors.Is(err, transport.ErrEmptyUploadPackRequest) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer resp.Close()
	st := openStore(dir)
	defer st.Close()
	err = packfile.UpdateObjectStorage(st, unpack(req, resp))
	if err != nil && !errors.Is(err, packfile.ErrEmptyPackfile) {
		return nil, err
	}
	for _, h := range resp.Shallows {
		shallow = append(shallow, h.String())
	}
	return shallow, syncFiles(filepath.Join(dir, "objects", "pack"))
}

// whole checks that a commit is here with all its files, as far as they are
// not those of another commit that is known to be whole.
func (o *objects) whole(known, head plumbing.Hash) error {
	to, err := o.commit(head)
	if err != nil {
		return err
	}
	from := plumbing.ZeroHash
	if !known.IsZero() {
		if k, err := o.commit(known); err == nil {
			from = k.TreeHash
		}
	}
	if _, err := o.tree(to.TreeHash); err != nil {
		return err
	}
	c := comparison{read: o.tree, found: func(e object.TreeEntry) error { return o.has(e) }}
	return c.folder("", from, to.TreeHash)
}
