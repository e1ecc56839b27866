package store

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/writ-os/writ/schema"
)

// packAge is how old an event of the log is when it is packed: watchers have had
// it long since, and only one that comes back after a pause asks for it again.
const packAge = 5 * time.Second

// packed is an event as bytes: a fifth of the memory of the objects, in pieces
// that nothing else lies between, so that their pages are given back when the
// events go. A busy log is otherwise most of what a server holds.
type packed struct {
	res        *schema.Resource
	item, prev packedItem
}

// packedItem is a state of an object: bytes, or the item that is the object's
// state now, which is kept anyhow.
type packedItem struct {
	live    *Item
	value   []byte
	version schema.ResourceVersion
}

// packer packs the events of one pass. Two events share a state: it is the new one
// of the first and the one before of the second.
type packer struct {
	values map[*Item][]byte
}

func (p *packer) item(it *Item) (packedItem, error) {
	if it == nil {
		return packedItem{}, nil
	}
	value, ok := p.values[it]
	if !ok {
		long, err := encodeValue(it.Object)
		if err != nil {
			return packedItem{}, fmt.Errorf("pack %v %v: %w", it.Resource, it.Key, err)
		}
		value = bytes.Clone(long) // encoders leave room behind
		p.values[it] = value
	}
	return packedItem{value: value, version: it.Version}, nil
}

// event returns an event as bytes. current says that its item is the object's
// state now.
func (p *packer) event(e *Event, current bool) (*Event, error) {
	prev, err := p.item(e.Prev)
	if err != nil {
		return nil, err
	}
	item := packedItem{live: e.Item}
	if !current {
		if item, err = p.item(e.Item); err != nil {
			return nil, err
		}
	}
	return &Event{Type: e.Type, when: e.when, at: e.Version(), packed: &packed{e.Item.Resource, item, prev}}, nil
}

// past returns a packed event whose item is no longer the object's state.
func (p *packer) past(e *Event) (*Event, error) {
	item, err := p.item(e.packed.item.live)
	if err != nil {
		return nil, err
	}
	return &Event{Type: e.Type, when: e.when, at: e.at, packed: &packed{e.packed.res, item, e.packed.prev}}, nil
}

func (p packedItem) unpack(r *schema.Resource) (*Item, error) {
	if p.live != nil || p.value == nil {
		return p.live, nil
	}
	o, err := decodeValue(r, p.value)
	if err != nil {
		return nil, err
	}
	return newItem(r, o, p.version), nil
}

// unpacked returns events as they were; those that are not packed are the same.
func unpacked(events []*Event) ([]*Event, error) {
	if !slices.ContainsFunc(events, func(e *Event) bool { return e.packed != nil }) {
		return events, nil
	}
	out := slices.Clone(events)
	for i, e := range events {
		if e.packed == nil {
			continue
		}
		item, err := e.packed.item.unpack(e.packed.res)
		if err != nil {
			return nil, fmt.Errorf("unpack event: %w", err)
		}
		prev, err := e.packed.prev.unpack(e.packed.res)
		if err != nil {
			return nil, fmt.Errorf("unpack event: %w", err)
		}
		out[i] = &Event{Type: e.Type, Item: item, Prev: prev, when: e.when, at: e.at}
	}
	return out, nil
}

// pack takes the objects of old events out of the log. Nobody waits for it: it
// encodes beside, and what has left the log meanwhile is let go of.
func (l *eventLog) pack(now time.Time) error {
	l.mu.Lock()
	events, first := l.events, l.first
	l.mu.Unlock()
	small, err := pack(events, now)
	if err != nil || len(small) == 0 {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Others still read the old slice.
	l.events = append(make([]*Event, 0, len(l.events)+64), l.events...)
	for i, e := range small {
		if at := int64(i) + first - l.first; at >= 0 {
			l.events[at] = e
		}
	}
	return nil
}

// pack returns what takes the place of events, by their index: of old ones that
// are not packed, and of packed ones whose state has become another since.
func pack(events []*Event, now time.Time) (map[int]*Event, error) {
	p, later, out := &packer{map[*Item][]byte{}}, map[schema.Key]bool{}, map[int]*Event{}
	for i, e := range slices.Backward(events) {
		it := e.Item
		if e.packed != nil {
			it = e.packed.item.live
		}
		if it == nil {
			continue
		}
		current := !later[it.Key] && e.Type != Deleted
		later[it.Key] = true
		var err error
		switch {
		case e.packed == nil && now.Sub(e.when) >= packAge:
			out[i], err = p.event(e, current)
		case e.packed != nil && !current:
			out[i], err = p.past(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
