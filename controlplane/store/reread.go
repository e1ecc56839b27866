package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"github.com/writ-os/writ/schema"
)

// Unreadable values are tried again when the Sealer has changed, and in the
// meantime now and then: a key service may be back.
const (
	rereadEvery  = 5 * time.Second
	rereadWithin = 20 * time.Second // for one resource
)

// found is a value that could not be read, and now can.
type found struct {
	slot *slot
	item *Item
}

// Reread tries at once to read what could not be read: the Sealer can do more
// than it could. The leader also looks for what is stored in another form than a
// write would give it now, and stores it anew.
func (s *Store) Reread() {
	wake(s.rereadNow)
	wake(s.resealNow)
}

// rereadLoop tries to read what cannot be read, until ctx is done. It reads
// beside the applier: a key service may take its time.
func (s *Store) rereadLoop(ctx context.Context) error {
	for {
		var again <-chan time.Time
		if s.lostValues.Load() > 0 {
			again = time.After(rereadEvery)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-s.rereadNow:
		}
		for _, sl := range s.keys.Load().slots {
			if sl == nil {
				continue
			}
			if got := s.reread(ctx, sl); len(got) > 0 {
				select {
				case s.regained <- got:
				case <-ctx.Done():
					return nil
				}
			}
		}
	}
}

// reread reads the values of a resource that could not be read.
func (s *Store) reread(ctx context.Context, sl *slot) (got []found) {
	st := s.state.Load()
	st.table(sl.res).lost.Ascend(func(l *lost) bool {
		it, err := s.readOne(ctx, sl.res, l)
		switch {
		case err == nil && it != nil:
			got = append(got, found{slot: sl, item: it})
		case errors.Is(err, context.DeadlineExceeded):
			return false
		}
		return ctx.Err() == nil
	})
	return got
}

// readOne reads one value again; nil when another has taken its place.
func (s *Store) readOne(ctx context.Context, r *schema.Resource, l *lost) (*Item, error) {
	ctx, cancel := context.WithTimeout(ctx, rereadWithin)
	defer cancel()
	key := []byte(root + r.StoragePrefix + "/" + l.key.String())
	res, err := s.etcd.KV().Range(ctx, key, nil, mvcc.RangeOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	if len(res.KVs) != 1 || res.KVs[0].ModRevision != l.version.Main() {
		return nil, nil //nolint:nilnil // the applier hears of it
	}
	o, err := s.open(r, key, res.KVs[0].Value)
	if err != nil {
		return nil, err
	}
	return newItem(r, o, l.version), nil
}

// regain puts into the tables what can be read at last. Watches have ended when
// it could not; those of Follow get it as changes of now, since they may have
// seen later ones. The applier calls it.
func (s *Store) regain(all []found) {
	keys, at := s.keys.Load(), s.Version()
	events := map[*slot][]*Event{}
	now := time.Now()
	for _, f := range all {
		if keys.find(f.slot.res) != f.slot {
			continue // removed meanwhile
		}
		l, ok := f.slot.table.lost.Get(&lost{key: f.item.Key})
		if !ok || l.version != f.item.Version {
			continue // changed meanwhile
		}
		ev := &Event{Type: Added, Item: f.item, when: now}
		if prev := f.slot.table.put(f.item); prev != nil {
			ev.Type, ev.Prev = Modified, prev
		}
		at++ // below the main revision of whatever comes next, as in difference
		ev.at = at
		events[f.slot] = append(events[f.slot], ev)
	}
	n := 0
	s.publish(max(at, s.Version()))
	for sl, evs := range events {
		sl.log.replace(evs, at)
		n += len(evs)
	}
	s.noteUnreadable()
	if n > 0 {
		s.log.Info("values can be read that could not be", "values", n, "left", s.lostValues.Load())
	}
}
