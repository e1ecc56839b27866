package cuerule

import (
	"sync"

	"github.com/writ-os/writ/reconciler/render"
)

// Kept is the rules that a child has loaded last, so that it reads them once.
// Their CUE values belong to one goroutine at a time, since CUE writes into
// values it has finished with: With gives them out.
type Kept[T any] struct {
	mu    sync.Mutex
	hash  string
	rules T
}

// With calls do with the rules of some sources.
func (k *Kept[T]) With(s render.RuleSources, load func(render.RuleSources) T, do func(T)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hash != s.Hash || s.Hash == "" {
		var none T
		k.hash, k.rules = "", none // while it is loaded it is not there
		rules := load(s)
		k.hash, k.rules = s.Hash, rules
	}
	do(k.rules)
}
