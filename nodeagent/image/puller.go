package image

import (
	"context"
	"sync"
	"time"
)

// Puller pulls images: each reference once at a time however many pods wait
// for it, and not too many references at once.
type Puller struct {
	store Store
	slots chan struct{}

	mu      sync.Mutex
	pulling map[string]*pull
}

type pull struct {
	done  chan struct{}
	image Image
	err   error
	took  time.Duration
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
// without waiting. Pods that ask with the same credentials share one pull.
func (p *Puller) Pull(ctx context.Context, ref string, creds []Credentials) (Image, time.Duration, error) {
	key := ref
	for _, c := range creds {
		key += "\x00" + c.Username + "\x00" + c.Password
	}
	p.mu.Lock()
	pl := p.pulling[key]
	if pl == nil {
		pl = &pull{done: make(chan struct{})}
		p.pulling[key] = pl
		// The pull outlives the pod that asked first: others may wait for it.
		go p.run(context.WithoutCancel(ctx), key, ref, creds, pl)
	}
	p.mu.Unlock()
	select {
	case <-pl.done:
		return pl.image, pl.took, pl.err
	case <-ctx.Done():
		return Image{}, 0, ctx.Err()
	}
}

func (p *Puller) run(ctx context.Context, key, ref string, creds []Credentials, pl *pull) {
	p.slots <- struct{}{}
	start := time.Now()
	pl.image, pl.err = p.store.Pull(ctx, ref, creds)
	pl.took = time.Since(start)
	<-p.slots
	p.mu.Lock()
	delete(p.pulling, key)
	p.mu.Unlock()
	close(pl.done)
}
