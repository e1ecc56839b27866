package store

import (
	"fmt"

	"github.com/writ-os/writ/schema"
)

// buried holds what the dead has left against what is known.
func (h *lives) buried(at schema.ResourceVersion, found map[string]kept) error {
	if at < h.newest {
		return fmt.Errorf("the store is at %v, %v was stored", at, h.newest)
	}
	for k, c := range h.last {
		if have, there := found[k]; !h.explains(c, have, there) {
			return fmt.Errorf("%v was stored, found %v (%v)", c, have, there)
		}
	}
	for k, have := range found {
		if op := h.byValue[have.value]; h.last[k].version != have.version && (op == nil || h.open[op.id] == nil) {
			return fmt.Errorf("%s is %v, which nobody was writing", k, have)
		}
	}
	for _, op := range h.open {
		if err := h.whole(op, found); err != nil {
			return err
		}
		h.unknown++
	}
	for k, have := range found {
		if err := h.learn(saved{k, have}); err != nil {
			return err
		}
	}
	for k, c := range h.last { // gone without a word
		if _, there := found[k]; !there && c.value != "-" {
			delete(h.last, k)
		}
	}
	h.newest = at
	return nil
}

// explains says whether a key may be as it was found when c was its last known
// change: as c left it, or as a write that was on its way did.
func (h *lives) explains(c saved, have kept, there bool) bool {
	if there {
		return have == c.kept || have.version > c.version
	}
	return c.value == "-" || h.underway(c.key)
}

// underway says whether somebody was deleting a key.
func (h *lives) underway(key string) bool {
	for _, op := range h.open {
		for i, k := range op.keys {
			if k == key && op.values[i] == "-" {
				return true
			}
		}
	}
	return false
}

// whole demands that a write which nobody heard the end of is there with all its
// keys or not at all, as far as nothing was written over it.
func (h *lives) whole(op *historyOp, found map[string]kept) error {
	var stored schema.ResourceVersion
	for i, k := range op.keys {
		if op.values[i] != "-" && found[k].value == op.values[i] {
			stored = found[k].version
		}
	}
	main := stored.Main()
	if main == 0 {
		return nil
	}
	h.late++
	for i, k := range op.keys {
		have, there := found[k]
		switch {
		case there && have.version.Main() > main:
		case !there && (h.underway(k) || h.deletedAfter(saved{k, kept{version: stored}})):
		case op.values[i] == "-" && there, op.values[i] != "-" && have.value != op.values[i]:
			return fmt.Errorf("half of write %s is stored at revision %d: %s is %v (%v)", op.id, main, k, have, there)
		}
	}
	return nil
}
