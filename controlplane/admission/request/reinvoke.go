package request

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// Reinvocation is what a plugin remembers of its first run: who has asked to
// see the object again, and what the object was when the plugin was done.
type Reinvocation struct {
	last    runtime.Object
	willing map[string]bool // asked in the first run, none has changed since
	due     map[string]bool // a later one changed the object: ask them again
}

// NewReinvocation returns one that remembers nothing.
func NewReinvocation() *Reinvocation {
	return &Reinvocation{willing: map[string]bool{}, due: map[string]bool{}}
}

// Begin looks at the object before the second run: when others have changed it
// since, all that are willing are due.
func (v *Reinvocation) Begin(o runtime.Object) {
	if !apiequality.Semantic.DeepEqual(v.last, o) {
		v.Change()
	}
}

// End remembers the object as the plugin left it.
func (v *Reinvocation) End(o runtime.Object) {
	v.last = nil
	if o != nil {
		v.last = o.DeepCopyObject()
	}
}

// Change makes all due that have been asked before.
func (v *Reinvocation) Change() {
	for id := range v.willing {
		v.due[id] = true
	}
	clear(v.willing)
}

// Willing notes one that wants to see later changes.
func (v *Reinvocation) Willing(id string) { v.willing[id] = true }

// Due says whether one must be asked in the second run.
func (v *Reinvocation) Due(id string) bool { return v.due[id] }
