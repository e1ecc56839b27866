package request

import (
	"context"
	"sync"
)

// Pass is one run of a write through all plugins that mutate. When one of them
// changes the object after others have seen it, the chain may run a second
// time, and those that asked for it see the object again: at most once, as
// upstream.
type Pass struct {
	mu     sync.Mutex
	again  bool
	second bool
	state  map[string]any
}

type passKey struct{}

// WithPass returns a context that carries a new pass.
func WithPass(ctx context.Context) (context.Context, *Pass) {
	p := &Pass{}
	return context.WithValue(ctx, passKey{}, p), p
}

// PassFrom returns the pass of a context, or one of its own where the chain
// runs without.
func PassFrom(ctx context.Context) *Pass {
	if p, ok := ctx.Value(passKey{}).(*Pass); ok {
		return p
	}
	return &Pass{}
}

// Again asks for a second run.
func (p *Pass) Again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = true
}

// Next says whether a second run is wanted, and begins it.
func (p *Pass) Next() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.again || p.second {
		return false
	}
	p.second = true
	return true
}

// Second says whether this is the second run.
func (p *Pass) Second() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.second
}

// State returns what a plugin keeps from the first run to the second, made by
// fresh when it is first asked for.
func State[T any](p *Pass, plugin string, fresh func() *T) *T {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.state[plugin].(*T); ok {
		return s
	}
	s := fresh()
	if p.state == nil {
		p.state = map[string]any{}
	}
	p.state[plugin] = s
	return s
}
