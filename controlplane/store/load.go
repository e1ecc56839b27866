package store

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"go.etcd.io/etcd/server/v3/storage/mvcc"
	etcdschema "go.etcd.io/etcd/server/v3/storage/schema"

	"github.com/writ-os/writ/schema"
)

// stored is the newest state of one key in etcd's backend.
type stored struct {
	rev   mvcc.Revision
	value []byte // in etcd's memory map: valid within the read transaction
	index int    // position of the resource
	gone  bool
}

// load fills the tables from etcd's backend and publishes the first state. It
// returns the etcd revision of it.
//
// It reads the bucket of revisions itself: etcd's range gives the main revision
// of a key only, and a resource version has the sub revision as well. Both are
// the bucket's keys, so that every object has the version it had before.
func (s *Store) load() (int64, error) {
	kv := s.etcd.KV()
	rev := kv.Rev() // nobody writes objects before the store is ready
	// A concurrent transaction: etcd commits its backend beside it, which must
	// not wait for the decoding.
	tx := s.etcd.Backend().ConcurrentReadTx()
	tx.RLock()
	defer tx.RUnlock()

	found := map[string]*stored{}
	var last mvcc.Revision
	keys := s.keys.Load()
	floors := make([]schema.ResourceVersion, len(keys.slots))
	err := tx.UnsafeForEach(etcdschema.Key, func(k, v []byte) error {
		key, value, err := splitKeyValue(v)
		if err != nil {
			return fmt.Errorf("read revision %x: %w", k, err)
		}
		st := found[string(key)]
		if st == nil {
			i, _, ok := keys.decode(key)
			if !ok {
				i = -1
			}
			st = &stored{index: i}
			found[string(key)] = st
		}
		st.rev, st.value, st.gone = mvcc.BytesToRev(k), value, mvcc.IsTombstone(k)
		if st.rev.GreaterThan(last) {
			last = st.rev
		}
		at := schema.NewResourceVersion(st.rev.Main, st.rev.Sub)
		if st.index >= 0 {
			floors[st.index] = max(floors[st.index], at)
		} else {
			s.unknown(key, at)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	s.decodeAll(keys, found)

	version := schema.NewResourceVersion(last.Main, last.Sub)
	version = max(version, schema.NewResourceVersion(rev, 0))
	// A watch may resume from the last change of its resource on, even when
	// others have changed since; what was compacted is not known.
	s.floor = schema.NewResourceVersion(max(kv.FirstRev(), 0)+1, 0) - 1
	for i, sl := range keys.slots {
		sl.log.start(min(max(floors[i], s.floor), version), version)
	}
	s.publish(version)
	return rev, nil
}

// decodeAll decodes the live values on all cores and fills the tables. Values
// that cannot be decoded are logged and stay in etcd.
func (s *Store) decodeAll(space *keyspace, found map[string]*stored) {
	keys := make([]string, 0, len(found))
	for key, st := range found {
		if !st.gone && st.index >= 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys) // trees fill fastest in order, and logs read the same every time
	items := make([]*Item, len(keys))
	errs := make([]error, len(keys))
	inParallel(len(keys), func(i int) {
		st := found[keys[i]]
		r := space.slots[st.index].res
		o, err := s.open(r, []byte(keys[i]), st.value)
		if err != nil {
			errs[i] = err
			return
		}
		items[i] = newItem(r, o, schema.NewResourceVersion(st.rev.Main, st.rev.Sub))
	})
	for i, it := range items {
		if it == nil {
			s.undecodable(keys[i], errs[i])
			continue
		}
		space.slots[found[keys[i]].index].table.put(it)
	}
}

// inParallel calls fn for 0..n-1, on all cores when that is worth it.
func inParallel(n int, fn func(i int)) {
	workers := runtime.GOMAXPROCS(0)
	if n < 64 || workers == 1 {
		for i := range n {
			fn(i)
		}
		return
	}
	const chunk = 32
	var g errgroup.Group
	g.SetLimit(workers)
	for at := 0; at < n; at += chunk {
		g.Go(func() error {
			for i := at; i < min(at+chunk, n); i++ {
				fn(i)
			}
			return nil
		})
	}
	_ = g.Wait() // fn returns no error
}

// splitKeyValue finds the key and the value in an encoded mvccpb.KeyValue
// without copying them: most revisions of the bucket are history.
func splitKeyValue(b []byte) (key, value []byte, err error) {
	const keyField, valueField = 1, 5
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, nil, errTruncated
		}
		b = b[n:]
		size, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, nil, errTruncated
		}
		b = b[n:]
		switch tag & 7 {
		case 0: // a number, read as size
			continue
		case 2:
		default:
			return nil, nil, fmt.Errorf("wire type %d in key-value", tag&7)
		}
		if size > uint64(len(b)) {
			return nil, nil, errTruncated
		}
		switch tag >> 3 {
		case keyField:
			key = b[:size]
		case valueField:
			value = b[:size]
		}
		b = b[size:]
	}
	return key, value, nil
}
