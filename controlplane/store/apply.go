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
		case all := <-s.regained:
			s.regain(all)
		case c := <-s.prepared:
			c.done <- s.alter(c)
		}
	}
}

// incoming is one event of etcd on its way into the copy.
type incoming struct {
	*mvccpb.Event
	slot    int // position of the resource
	key     schema.Key
	version schema.ResourceVersion
	item    *Item // of a put
	err     error // why there is none
}

// apply brings the copy to the state after a batch of etcd events: publishes
// the state, then its events.
func (s *Store) apply(batch []*mvccpb.Event) {
	if len(batch) == 0 {
		return
	}
	now := time.Now()
	keys := s.keys.Load()
	all, v := s.receive(keys, batch)
	s.claim(keys, all)
	// Nobody waits for this but the applier: a key service may take its time.
	inParallel(len(all), func(i int) { s.openIncoming(keys, all[i]) })
	events, lossy := map[int][]*Event{}, s.lostValues.Load() > 0
	for _, in := range all {
		t := keys.slots[in.slot].table
		ev := s.change(t, in)
		lossy = lossy || in.err != nil
		if ev != nil {
			ev.when = now
			events[in.slot] = append(events[in.slot], ev)
		}
	}
	s.settle(all)
	s.publish(v)
	for i, sl := range keys.slots {
		if sl != nil {
			sl.log.append(events[i], v)
		}
	}
	if lossy {
		s.noteUnreadable()
	}
	s.met.applied.Add(float64(len(batch)))
}

// receive says what the events of etcd are about, and the version after them.
func (s *Store) receive(keys *keyspace, batch []*mvccpb.Event) (all []*incoming, v schema.ResourceVersion) {
	all = make([]*incoming, 0, len(batch))
	changed := map[string]*Record{}
	var main, sub int64
	for _, e := range batch {
		if e.Kv.ModRevision != main {
			main, sub = e.Kv.ModRevision, 0
		}
		v = schema.NewResourceVersion(main, sub)
		sub++
		i, key, ok := keys.decode(e.Kv.Key)
		if ok {
			all = append(all, &incoming{Event: e, slot: i, key: key, version: v})
			continue
		}
		name, ok := recordName(e.Kv.Key)
		switch {
		case !ok:
			s.unknown(e.Kv.Key, v)
		case e.Type == mvccpb.Event_DELETE:
			changed[name] = nil
		default:
			changed[name] = &Record{Value: e.Kv.Value, Version: v}
		}
	}
	s.noteRecords(changed)
	return all, v
}

// claim takes the objects that their writers have decoded already.
func (s *Store) claim(keys *keyspace, all []*incoming) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range all {
		for _, p := range s.pending[string(in.Kv.Key)] {
			if in.item == nil && p.object != nil && in.Type == mvccpb.Event_PUT && bytes.Equal(p.value, in.Kv.Value) {
				in.item = newItem(keys.slots[in.slot].res, p.object, in.version)
				p.object = nil // it belongs to the readers now
			}
		}
	}
}

// openIncoming decodes the object that no writer of this process has decoded.
func (s *Store) openIncoming(keys *keyspace, in *incoming) {
	if in.Type != mvccpb.Event_PUT || in.item != nil {
		return
	}
	r := keys.slots[in.slot].res
	o, err := s.open(r, in.Kv.Key, in.Kv.Value)
	if err != nil {
		s.undecodable(string(in.Kv.Key), err)
		in.err = err
		return
	}
	in.item = newItem(r, o, in.version)
}

// change applies one event to its table. A value that cannot be read changes
// nothing but that: the object was not deleted, and who takes it for deleted may
// delete what depends on it.
func (s *Store) change(t *table, in *incoming) *Event {
	switch {
	case in.Type == mvccpb.Event_DELETE:
		prev := t.remove(in.key, in.version)
		if prev == nil {
			return nil
		}
		in.item = prev.at(in.version)
		return &Event{Type: Deleted, Item: in.item, Prev: prev}
	case in.err != nil:
		t.lose(&lost{key: in.key, version: in.version, err: in.err})
		return nil
	}
	prev := t.put(in.item)
	if prev == nil {
		return &Event{Type: Added, Item: in.item}
	}
	return &Event{Type: Modified, Item: in.item, Prev: prev}
}

// settle hands the items to the writers that wait for them.
func (s *Store) settle(all []*incoming) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range all {
		if in.item == nil {
			continue
		}
		for _, p := range s.pending[string(in.Kv.Key)] {
			if p.delete == (in.Type == mvccpb.Event_DELETE) && (p.delete || bytes.Equal(p.value, in.Kv.Value)) {
				p.got = append(p.got, in.item)
			}
		}
	}
}

// open reads a stored value.
func (s *Store) open(r *schema.Resource, key, value []byte) (schema.Object, error) {
	value, _, err := s.cfg.Sealer.Open(r, string(key), value)
	if err != nil {
		return nil, fmt.Errorf("read stored %s: %w", r, err)
	}
	return decodeValue(r, value)
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
