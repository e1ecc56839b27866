package image

import (
	"context"
	"sync"
	"time"
)

// Puller pulls images: each reference once at a time however many pods wait
// for it, and not too many references at once.
type Puller struct {
	// Pulls remembers for whom images were pulled; nil remembers nothing. To be
	// set before.
	Pulls *Pulls

	store Store
	slots chan struct{}

	mu      sync.Mutex
	pulling map[string]*pull
}

type pull struct {
	done chan struct{}
	// waiting counts those who wait for it; when nobody does it is cancelled.
	waiting int
	cancel  context.CancelFunc
	image   Image
	err     error
	took    time.Duration
}

// NewPuller returns a puller that pulls at most parallel images at once
// (default 4).
func NewPuller(store Store, parallel int) *Puller {
	if parallel <= 0 {
		parallel = 4
	}
	return &Puller{store: store, slots: make(chan struct{}, parallel), pulling: map[string]*pull{}}
}

// Pull pulls a normalised reference and says how long the pull itself took,
// without waiting. Pods that ask with the same credentials share one pull. It
// ends when ctx of the last of them does.
func (p *Puller) Pull(ctx context.Context, ref string, creds []Credentials) (Image, time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return Image{}, 0, err
	}
	key := ref
	for _, c := range creds {
		key += "\x00" + c.Username + "\x00" + c.Password
	}
	p.mu.Lock()
	pl := p.pulling[key]
	if pl == nil {
		// The pull outlives the pod that asked first: others may wait for it.
		pctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		pl = &pull{done: make(chan struct{}), cancel: cancel}
		p.pulling[key] = pl
		go p.run(pctx, key, ref, creds, pl)
	}
	pl.waiting++
	p.mu.Unlock()
	select {
	case <-pl.done:
		return pl.image, pl.took, pl.err
	case <-ctx.Done():
		p.leave(key, pl)
		return Image{}, 0, ctx.Err()
	}
}

// leave gives up a pull that nobody waits for any more. Who asks next begins a
// new one.
func (p *Puller) leave(key string, pl *pull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pl.waiting--; pl.waiting == 0 {
		pl.cancel()
		if p.pulling[key] == pl {
			delete(p.pulling, key)
		}
	}
}

func (p *Puller) run(ctx context.Context, key, ref string, creds []Credentials, pl *pull) {
	defer close(pl.done)
	defer pl.cancel()
	select {
	case p.slots <- struct{}{}:
		start := time.Now()
		pl.image, pl.err = p.pull(ctx, ref, creds)
		pl.took = time.Since(start)
		<-p.slots
	case <-ctx.Done():
		pl.err = ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pulling[key] == pl {
		delete(p.pulling, key)
	}
}

// pull pulls, and records for whom.
func (p *Puller) pull(ctx context.Context, ref string, creds []Credentials) (Image, error) {
	if err := p.Pulls.Begin(ref); err != nil {
		return Image{}, err
	}
	img, err := p.store.Pull(ctx, ref, creds)
	if err != nil {
		have, present, lookErr := p.store.Image(context.WithoutCancel(ctx), ref)
		if lookErr == nil && (!present || p.Pulls.known(have)) {
			p.Pulls.undo(ref) // nothing has come of it
		}
		return Image{}, err
	}
	return img, p.Pulls.Done(ref, img)
}
