package registry

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/writ-os/writ/controlplane/client"
)

// From how many ops on it pays to read them ahead, and how many lie in memory
// for it.
const (
	aheadFrom = 64
	aheadMost = 512
)

// readAhead reads what ops of a transaction declare, and makes the objects that
// there are not yet, on all processors. That depends on nothing but the op
// itself; the admission of each, which sees those before it, follows in order. An
// op that cannot be read, or not so, is left out: its turn will tell.
func (g *Registry) readAhead(ov *overlay, ops []client.Op) []declaration {
	out := make([]declaration, len(ops))
	if len(ops) < aheadFrom {
		return out
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(ops); i = int(next.Add(1)) - 1 {
				if op := ops[i]; op.Verb == client.VerbApply {
					out[i] = g.read(ov, op)
				}
			}
		})
	}
	wg.Wait()
	return out
}

// read reads one op ahead.
func (g *Registry) read(ov *overlay, op client.Op) (d declaration) {
	defer func() {
		if recover() != nil {
			d = declaration{} // in its turn it is met again, where a panic has somewhere to go
		}
	}()
	patch, err := readOp(op)
	if err != nil || checkApplied(op.Resource, patch, op.Key) != nil {
		return declaration{}
	}
	d.patch = patch
	if op.Subresource == "" && ov.base.Get(op.Resource, op.Key) == nil {
		if made, ok := g.fields.declare(op.Resource, patch, op.FieldManager); ok {
			d.made = made
		}
	}
	return d
}
