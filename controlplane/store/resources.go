package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	etcdschema "go.etcd.io/etcd/server/v3/storage/schema"

	"github.com/writ-os/writ/schema"
)

// change is a resource that is to be kept, or no longer.
type change struct {
	ctx    context.Context
	res    *schema.Resource
	remove bool
	ahead  map[string]*Item // what was read before, by etcd key
	done   chan error
}

// Add begins to keep a resource: what etcd has below its prefix is loaded, and
// is visible when Add returns. It does nothing when the resource is kept
// already. Two resources cannot share a prefix.
func (s *Store) Add(ctx context.Context, r *schema.Resource) error {
	return s.ask(ctx, &change{ctx: ctx, res: r.Stored(), done: make(chan error, 1)})
}

// Remove forgets a resource. What etcd has of it stays there; watches of it end
// with ErrNotKept. It does nothing when the resource is not kept.
func (s *Store) Remove(ctx context.Context, r *schema.Resource) error {
	return s.ask(ctx, &change{ctx: ctx, res: r.Stored(), remove: true, done: make(chan error, 1)})
}

func (s *Store) ask(ctx context.Context, c *change) error {
	select {
	case s.changes <- c: // taken when the store is ready
	case <-s.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.done:
		if errors.Is(err, mvcc.ErrCompacted) { // the copy is about to be loaded again
			if err := s.pause(ctx); err != nil {
				return err
			}
			return s.ask(ctx, c)
		}
		return err
	case <-s.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// prepareChanges reads and decodes what a change needs beside the applier, so
// that writers of other resources do not wait for it, until ctx is done.
func (s *Store) prepareChanges(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-s.changes:
			if !c.remove && s.keys.Load().find(c.res) == nil {
				// What fails here fails again, or is mended, at the final read.
				c.ahead, _, _ = s.read(c, s.etcd.KV().Rev())
			}
			select {
			case s.prepared <- c:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// alter makes a change. The applier calls it between two batches: the tables
// hold every revision up to that of the state and none after, and so does what
// is read at that revision.
func (s *Store) alter(c *change) error {
	keys, v := s.keys.Load(), s.Version()
	i, kept := keys.byRes[c.res]
	if c.remove {
		if kept {
			s.strays[c.res.StoragePrefix] = v
			s.keys.Store(keys.without(i))
			s.publish(v)
			s.noteUnreadable()
			keys.slots[i].log.close(fmt.Errorf("%w: %v", ErrNotKept, c.res))
		}
		return nil
	}
	if kept {
		return nil
	}
	if i, taken := keys.byPrefix[c.res.StoragePrefix]; taken {
		return fmt.Errorf("keep %v: %s%s holds %v", c.res, root, c.res.StoragePrefix, keys.slots[i].res)
	}
	items, unreadable, err := s.read(c, v.Main())
	if err != nil {
		return fmt.Errorf("load %v: %w", c.res, err)
	}
	sl := newSlot(c.res, s.cfg.EventLog)
	for _, it := range items {
		sl.table.put(it)
	}
	for _, l := range unreadable {
		sl.table.lose(l)
	}
	sl.log.start(min(max(s.strays[c.res.StoragePrefix], s.floor), v), v)
	delete(s.strays, c.res.StoragePrefix)
	s.keys.Store(keys.with(sl))
	s.publish(v)
	s.noteUnreadable()
	return nil
}

// read returns the objects of a resource at an etcd revision, by etcd key,
// and those that cannot be read. Those that were read ahead and have not changed
// since are not decoded again.
func (s *Store) read(c *change, rev int64) (map[string]*Item, []*lost, error) {
	// etcd tells its watchers of a revision a moment before it is readable.
	for s.etcd.KV().Rev() < rev {
		if c.ctx.Err() != nil {
			return nil, nil, c.ctx.Err()
		}
		time.Sleep(10 * time.Microsecond)
	}
	prefix := root + c.res.StoragePrefix
	got, err := s.etcd.KV().Range(c.ctx, []byte(prefix+"/"), []byte(prefix+"0"), mvcc.RangeOptions{Rev: rev})
	if err != nil {
		return nil, nil, err
	}
	// As decode of the keyspace will do it.
	space := newKeyspace([]*schema.Resource{c.res}, 0)
	items := make([]*Item, len(got.KVs))
	tx := s.readTx()
	defer tx.RUnlock()
	subs := &subRevisions{tx: tx}
	for i, kv := range got.KVs {
		if it := c.ahead[string(kv.Key)]; it != nil && it.Version.Main() == kv.ModRevision {
			items[i] = it
		} else if _, _, ok := space.decode(kv.Key); !ok {
			kv.Value = nil
		} else if kv.Version, err = subs.of(string(kv.Key), kv.ModRevision); err != nil {
			return nil, nil, err
		}
	}
	if s.etcd.KV().FirstRev() > rev { // parts of it may be gone
		return nil, nil, mvcc.ErrCompacted
	}
	errs := make([]error, len(items))
	inParallel(len(items), func(i int) {
		kv := got.KVs[i]
		if items[i] != nil || kv.Value == nil {
			return
		}
		o, err := s.open(c.res, kv.Key, kv.Value)
		if err != nil {
			errs[i] = err
			return
		}
		items[i] = newItem(c.res, o, schema.NewResourceVersion(kv.ModRevision, kv.Version))
	})
	out := make(map[string]*Item, len(items))
	var unreadable []*lost
	for i, it := range items {
		if errs[i] != nil {
			kv := got.KVs[i]
			s.undecodable(string(kv.Key), errs[i])
			_, name, _ := space.decode(kv.Key)
			unreadable = append(unreadable, &lost{key: name, version: schema.NewResourceVersion(kv.ModRevision, kv.Version), err: errs[i]})
		} else if it != nil {
			out[string(got.KVs[i].Key)] = it
		}
	}
	return out, unreadable, nil
}

// subRevisions finds the sub revisions of keys, which etcd's range does not tell.
type subRevisions struct {
	tx   backend.ReadTx
	main int64
	subs map[string]int64 // of the revision main, by key
}

// of returns the index of the write of a key in the transaction of a revision.
func (v *subRevisions) of(key string, main int64) (int64, error) {
	if v.main != main || v.subs == nil {
		from := mvcc.RevToBytes(mvcc.Revision{Main: main}, mvcc.NewRevBytes())
		to := mvcc.RevToBytes(mvcc.Revision{Main: main + 1}, mvcc.NewRevBytes())
		revs, values := v.tx.UnsafeRange(etcdschema.Key, from, to, 0)
		v.main, v.subs = main, make(map[string]int64, len(revs))
		for i, rev := range revs {
			k, _, err := splitKeyValue(values[i])
			if err != nil {
				return 0, fmt.Errorf("read revision %x: %w", rev, err)
			}
			v.subs[string(k)] = mvcc.BytesToRev(rev).Sub
		}
	}
	return v.subs[key], nil
}
