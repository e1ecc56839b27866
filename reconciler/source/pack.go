package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/source/pack"
)

// maxDelta is the longest object that is read from a difference, for which it
// is made in memory.
const maxDelta = 64 << 20

// maxObjects bounds what a remote may send at once: a branch of any repository of
// manifests, with its history.
const maxObjects = 1_000_000

// ask is what a request asks for.
type ask struct {
	wants []plumbing.Hash
	has   state // what is here; the zero state is nothing
	depth int   // of the history; 0 for what came since what is here
	// largest is the longest file that is wanted, where the remote can leave
	// out others; 0 for any, -1 for no files at all.
	largest int64
}

// request makes a request of what the remote understands.
func (a ask) request(refs *packp.AdvRefs) *packp.UploadPackRequest {
	can := refs.Capabilities.Supports
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	if can(capability.NoProgress) {
		_ = req.Capabilities.Set(capability.NoProgress)
	}
	req.Wants = a.wants
	if can(capability.Shallow) {
		_ = req.Capabilities.Set(capability.Shallow)
		for _, s := range a.has.Shallow {
			req.Shallows = append(req.Shallows, plumbing.NewHash(s))
		}
		if a.depth > 0 {
			req.Depth = packp.DepthCommits(a.depth)
		}
	}
	if !a.has.head().IsZero() {
		req.Haves = []plumbing.Hash{a.has.head()}
	}
	if a.largest != 0 && can(capability.Filter) {
		_ = req.Capabilities.Set(capability.Filter)
		req.Filter = packp.FilterBlobLimit(uint64(a.largest)+1, packp.BlobLimitPrefixNone)
		if a.largest < 0 {
			req.Filter = packp.FilterTreeDepth(0)
		}
	}
	return req
}

// received is what came with a pack.
type received struct {
	shallow   []string // commits whose parents are not here
	unshallow []string // commits whose parents are here now
}

// readThere is what a child does with a pack that a remote sends: it reads it
// through, and each folder, commit and tag of it once, so that none of them is
// read here before somebody has survived it. What is wrong with one of these is
// for whoever needs it.
var readThere = pack.Judge("source.pack", func(c *pack.Contents, _ *sandbox.Caller) error {
	for o := range c.All() {
		if o.Kind == plumbing.BlobObject {
			continue
		}
		e, err := c.Get(o.Hash)
		if err != nil {
			return fmt.Errorf("read %s %s: %w", o.Kind, o.Hash, err)
		}
		_, _ = object.DecodeObject(nil, e)
	}
	return nil
})

// Functions are what a child must know that reads packs.
func Functions() []sandbox.Function { return []sandbox.Function{readThere} }

// receive stores the pack that answers a request in dir, through to the disk,
// when a child has read it.
func (c *clone) receive(ctx context.Context, s session, dir string, req *packp.UploadPackRequest) (got received, err error) {
	defer func() {
		if err != nil {
			c.dir.sweep(dir)
			err = c.remote.explain(ctx, err)
		}
	}()
	resp, err := s.UploadPack(ctx, req)
	if errors.Is(err, transport.ErrEmptyUploadPackRequest) {
		return got, nil
	}
	if err != nil {
		return got, err
	}
	defer resp.Close()
	c.dir.sweep(dir)
	tmp := filepath.Join(dir, incomingPack)
	most := c.limits.Fetch
	limits := pack.Limits{Size: most, Object: most, Delta: maxDelta, Total: 4 * most, Objects: maxObjects}
	in, err := pack.Spool(tmp, unpack(req, resp), limits)
	if err != nil {
		return got, err
	}
	if in.Size == 0 {
		c.dir.sweep(dir)
		return got, fmt.Errorf("the answer ends before its pack: %w", io.ErrUnexpectedEOF)
	}
	listing, err := in.Ask(ctx, c.sandbox, readThere, nil, limits)
	if err != nil {
		return got, err
	}
	if _, err := in.Place(dir, listing); err != nil {
		return got, err
	}
	for _, h := range resp.Shallows {
		got.shallow = append(got.shallow, h.String())
	}
	for _, h := range resp.Unshallows {
		got.unshallow = append(got.unshallow, h.String())
	}
	return got, nil
}

// maxAbsent bounds the files that a remote leaves out.
const maxAbsent = 10_000

// whole checks that a commit is here with all its files, as far as they are
// not those of another commit that is known to be whole. Files that the remote
// was asked to leave out may be absent: if note is set they are noted.
func (o *objects) whole(known, head plumbing.Hash, note bool) error {
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
	c := comparison{read: o.tree, found: func(e object.TreeEntry) error {
		err := o.has(e)
		if note && errors.Is(err, ErrMissing) {
			return o.leaveOut(e.Hash)
		}
		return err
	}}
	return c.folder("", from, to.TreeHash)
}
