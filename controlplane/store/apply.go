package store

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"github.com/writ-os/writ/schema"
)

// follow applies what etcd has stored until ctx is done. It is the only
// goroutine that changes the tables.
func (s *Store) follow(ctx context.Context, watch mvcc.WatchStream) error {
	responses := watch.Chan()
	for {
		select {
		case <-ctx.Done():
			return nil
		case wr, ok := <-responses:
			if !ok {
				return nil
			}
			batch := wr.Events
			// What has queued up meanwhile becomes one state. A response holds
			// whole revisions, so no state holds half of one.
			for n := len(responses); n > 0 && wr.CompactRevision == 0; n-- {
				wr = <-responses
				batch = append(batch, wr.Events...)
			}
			s.apply(batch)
			if wr.CompactRevision != 0 {
				if err := s.reload(ctx, watch, wr.WatchID); err != nil {
					return err
				}
			}
		case c := <-s.prepared:
			c.done <- s.alter(c)
		}
	}
}

// apply brings the copy to the state after a batch of etcd events: publishes
// the state, then its events.
func (s *Store) apply(batch []*mvccpb.Event) {
	if len(batch) == 0 {
		return
	}
	now := time.Now()
	keys := s.keys.Load()
	events := map[int][]*Event{}
	var main, sub int64
	s.mu.Lock() // for pending
	for _, e := range batch {
		if e.Kv.ModRevision != main {
			main, sub = e.Kv.ModRevision, 0
		}
		v := schema.NewResourceVersion(main, sub)
		sub++
		i, key, ok := keys.decode(e.Kv.Key)
		if !ok {
			s.unknown(e.Kv.Key, v)
			continue
		}
		if ev := s.change(keys.slots[i].table, key, e, v); ev != nil {
			ev.when = now
			events[i] = append(events[i], ev)
		}
	}
	s.mu.Unlock()

	v := schema.NewResourceVersion(main, sub-1)
	s.publish(v)
	for i, sl := range keys.slots {
		if sl != nil {
			sl.log.append(events[i], v)
		}
	}
	s.met.applied.Add(float64(len(batch)))
}

// change applies one etcd event to its table and hands the item to the writers
// that wait for it.
func (s *Store) change(t *table, key schema.Key, e *mvccpb.Event, v schema.ResourceVersion) *Event {
	if e.Type == mvccpb.Event_DELETE {
		prev := t.remove(key)
		if prev == nil {
			return nil
		}
		it := prev.at(v)
		for _, p := range s.pending[string(e.Kv.Key)] {
			if p.delete {
				p.got = append(p.got, it)
			}
		}
		return &Event{Type: Deleted, Item: it, Prev: prev}
	}
	it := s.claim(t.res, e.Kv, v)
	if it == nil {
		prev := t.remove(key) // an unreadable state: nobody must act on the one before
		if prev == nil {
			return nil
		}
		return &Event{Type: Deleted, Item: prev.at(v), Prev: prev}
	}
	prev := t.put(it)
	if prev == nil {
		return &Event{Type: Added, Item: it}
	}
	return &Event{Type: Modified, Item: it, Prev: prev}
}

// claim returns the item of a stored value: the object that its writer has
// decoded already, or else decoded here.
func (s *Store) claim(r *schema.Resource, kv *mvccpb.KeyValue, v schema.ResourceVersion) *Item {
	var it *Item
	waiting := s.pending[string(kv.Key)]
	for _, p := range waiting {
		if it == nil && p.object != nil && bytes.Equal(p.value, kv.Value) {
			it = newItem(r, p.object, v)
			p.object = nil // it belongs to the readers now
		}
	}
	if it == nil {
		o, err := s.open(r, kv.Key, kv.Value)
		if err != nil {
			s.undecodable(string(kv.Key), err)
			return nil
		}
		it = newItem(r, o, v)
	}
	for _, p := range waiting {
		if !p.delete && bytes.Equal(p.value, kv.Value) {
			p.got = append(p.got, it)
		}
	}
	return it
}

// open reads a stored value.
func (s *Store) open(r *schema.Resource, key, value []byte) (schema.Object, error) {
	value, err := s.cfg.Sealer.Open(r, string(key), value)
	if err != nil {
		return nil, fmt.Errorf("read stored %s: %w", r, err)
	}
	return s.decode(r, value)
}

// decode is decodeValue of an object that the copy keeps.
func (s *Store) decode(r *schema.Resource, value []byte) (schema.Object, error) {
	o, err := decodeValue(r, value)
	if err == nil {
		s.owners.share(o)
	}
	return o, err
}

// unknown notes the change of a key that is of no resource that is kept: one
// may be added for it.
func (s *Store) unknown(key []byte, v schema.ResourceVersion) {
	if prefix, ok := strayPrefix(key); ok {
		s.strays[prefix] = v
		return
	}
	s.met.unreadable.Inc()
	s.log.Warn("keeping a key that is not of a known resource", "key", string(key))
}

func (s *Store) undecodable(key string, err error) {
	s.met.unreadable.Inc()
	s.log.Error("keeping a value that cannot be read", "key", key, "err", err)
}
