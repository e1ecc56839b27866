package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"github.com/writ-os/writ/schema"
)

// watchFrom asks etcd for all changes from a revision on.
func (s *Store) watchFrom(ctx context.Context, watch mvcc.WatchStream, rev int64) error {
	if _, err := watch.Watch(ctx, 0, []byte(root), []byte(rootEnd), rev); err != nil {
		return fmt.Errorf("watch etcd: %w", err)
	}
	return nil
}

// reload brings the copy to what etcd holds, after changes that nobody can tell
// any more: this member was so far behind that it got a snapshot in place of
// the log, and the history between the two was dropped.
//
// Watches end with ErrExpired: their readers list again. Those of Follow, which
// never end, get the difference as events.
func (s *Store) reload(ctx context.Context, watch mvcc.WatchStream, ended mvcc.WatchID) error {
	if err := watch.Cancel(ended); err != nil {
		return fmt.Errorf("end watch of etcd: %w", err)
	}
	began, was := time.Now(), s.Version()
	im, err := s.readImage()
	if err != nil {
		return fmt.Errorf("load objects again: %w", err)
	}
	keys := s.keys.Load()
	events := make([][]*Event, len(keys.slots))
	n := 0
	for i, sl := range keys.slots {
		if sl == nil {
			continue
		}
		events[i] = difference(sl.table, im.items[i], im.lost[i], was)
		for _, e := range events[i] {
			e.when = began
			if e.Type == Deleted {
				sl.table.remove(e.Item.Key, e.Item.Version)
			} else {
				sl.table.put(e.Item)
			}
		}
		sl.table.lost.Clear(false)
		for _, l := range im.lost[i] {
			sl.table.lose(l)
		}
		n += len(events[i])
	}
	s.floor = max(s.floor, im.floor)
	s.hand(keys)
	s.noteRecords(im.records)
	s.publish(im.version)
	for i, sl := range keys.slots {
		if sl != nil {
			sl.log.replace(events[i], im.version)
		}
	}
	s.noteUnreadable()
	s.met.reloads.Inc()
	s.log.Warn("loaded all objects again: the history of their changes was gone",
		"was", was.String(), "resourceVersion", im.version.String(), "changed", n, "took", time.Since(began))
	return s.watchFrom(ctx, watch, im.rev+1)
}

// difference is what makes a table the same as a list of items. First come the
// deletions, at versions of no write that follow the table's; then the other
// changes, at theirs. An object that was deleted and created again is both.
//
// Those whose value cannot be read stay as they were; one that can be read at last
// may have a version that others have passed.
func difference(t *table, items []*Item, unreadable []*lost, was schema.ResourceVersion) []*Event {
	is := make(map[schema.Key]*Item, len(items))
	kept := make(map[schema.Key]bool, len(unreadable))
	for _, l := range unreadable {
		kept[l.key] = true
	}
	for _, it := range items {
		is[it.Key] = it
	}
	var gone, changed []*Event
	before := map[schema.Key]*Item{}
	t.items.Ascend(func(e *entry) bool {
		now := is[e.key]
		if kept[e.key] {
			return true
		}
		if now != nil && now.Object.GetUID() == e.item.Object.GetUID() {
			before[e.key] = e.item
			return true
		}
		// The last write before has a lower sub revision than all of these, and
		// the first after has a higher main revision.
		was++
		gone = append(gone, &Event{Type: Deleted, Item: e.item.at(was), Prev: e.item})
		return true
	})
	for _, it := range items {
		ev := &Event{Type: Added, Item: it, Prev: before[it.Key]}
		switch {
		case ev.Prev == nil:
		case ev.Prev.Version != it.Version:
			ev.Type = Modified
		default:
			continue
		}
		if it.Version <= was {
			was++
			ev.at = was
		}
		changed = append(changed, ev)
	}
	slices.SortFunc(changed, func(a, b *Event) int {
		if a.Version() < b.Version() {
			return -1
		}
		return 1
	})
	return append(gone, changed...)
}

// hand gives the writers that wait what became of their writes, as far as it is
// still there.
func (s *Store) hand(keys *keyspace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, waiting := range s.pending {
		i, name, ok := keys.decode([]byte(key))
		if !ok {
			continue
		}
		if e, ok := keys.slots[i].table.items.Get(&entry{key: name}); ok {
			for _, p := range waiting {
				p.got = append(p.got, e.item)
			}
		}
	}
}
