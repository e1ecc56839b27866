package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	etcdschema "go.etcd.io/etcd/server/v3/storage/schema"

	"github.com/writ-os/writ/schema"
)

// stored is the newest state of one key in etcd's backend.
type stored struct {
	rev   mvcc.Revision
	value []byte // in etcd's memory map: valid within the read transaction
	index int    // position of the resource
	key   schema.Key
	gone  bool
}

// image is what etcd holds of all resources at one of its revisions.
type image struct {
	rev     int64
	version schema.ResourceVersion
	// floor is the version up to which history may be missing.
	floor schema.ResourceVersion
	// By position of the resource: the version of its last change, and its
	// objects in the order of their keys.
	last  []schema.ResourceVersion
	items [][]*Item
	// lost are the values that cannot be read, likewise.
	lost [][]*lost
	// records are the newest of each; nil one that was deleted.
	records map[string]*Record
}

// load fills the tables from etcd's backend and publishes the first state. It
// returns the etcd revision of it.
func (s *Store) load() (int64, error) {
	im, err := s.readImage()
	if err != nil {
		return 0, err
	}
	s.floor = im.floor
	for i, sl := range s.keys.Load().slots {
		for _, it := range im.items[i] {
			sl.table.put(it)
		}
		for _, l := range im.lost[i] {
			sl.table.lose(l)
		}
		// A watch may resume from the last change of its resource on, even when
		// others have changed since; what was compacted is not known.
		sl.log.start(min(max(im.last[i], im.floor), im.version), im.version)
	}
	s.noteRecords(im.records)
	s.publish(im.version)
	s.noteUnreadable()
	return im.rev, nil
}

// readImage reads what etcd holds now. Other members may be writing.
func (s *Store) readImage() (*image, error) {
	for {
		rev := s.revision()
		im, err := s.imageAt(rev)
		if !errors.Is(err, mvcc.ErrCompacted) {
			return im, err
		}
	}
}

// imageAt reads what etcd held at a revision, which etcd must not have dropped
// meanwhile.
//
// It reads the bucket of revisions itself: etcd's range gives the main revision
// of a key only, and a resource version has the sub revision as well. Both are
// the bucket's keys, so that every object has the version it had before.
func (s *Store) imageAt(rev int64) (*image, error) {
	tx := s.readTx()
	defer tx.RUnlock()
	first := s.etcd.KV().FirstRev()
	if first > rev {
		return nil, mvcc.ErrCompacted
	}
	keys := s.keys.Load()
	im := &image{
		rev: rev, floor: schema.NewResourceVersion(max(first, 0)+1, 0) - 1,
		last: make([]schema.ResourceVersion, len(keys.slots)), items: make([][]*Item, len(keys.slots)), lost: make([][]*lost, len(keys.slots)),
		records: map[string]*Record{},
	}
	found := map[string]*stored{}
	var last mvcc.Revision
	err := tx.UnsafeForEach(etcdschema.Key, func(k, v []byte) error {
		at := mvcc.BytesToRev(k)
		if at.Main > rev {
			return nil
		}
		if at.GreaterThan(last) {
			last = at
		}
		return s.find(keys, found, k, v, im)
	})
	if err != nil {
		return nil, err
	}
	im.version = max(schema.NewResourceVersion(last.Main, last.Sub), schema.NewResourceVersion(rev, 0))
	s.decodeAll(keys, found, im)
	return im, nil
}

// find notes one revision of one key, as the bucket has it.
func (s *Store) find(space *keyspace, found map[string]*stored, k, v []byte, im *image) error {
	key, value, err := splitKeyValue(v)
	if err != nil {
		return fmt.Errorf("read revision %x: %w", k, err)
	}
	if len(key) == 0 {
		return nil // Restore left it, to say where versions go on
	}
	st := found[string(key)]
	if st == nil {
		st = &stored{}
		var ok bool
		if st.index, st.key, ok = space.decode(key); !ok {
			st.index = -1
		}
		found[string(key)] = st
	}
	st.rev, st.value, st.gone = mvcc.BytesToRev(k), value, mvcc.IsTombstone(k)
	at := schema.NewResourceVersion(st.rev.Main, st.rev.Sub)
	if name, ok := recordName(key); ok {
		im.records[name] = &Record{Value: bytes.Clone(value), Version: at}
		if st.gone {
			im.records[name] = nil
		}
	} else if st.index < 0 {
		s.unknown(key, at)
	} else {
		im.last[st.index] = max(im.last[st.index], at)
	}
	return nil
}

// readTx begins a read of etcd's backend. It is a concurrent one: etcd commits
// its backend beside it, which must not wait for the decoding. A backend that
// was replaced by the snapshot of another member meanwhile may be closed.
func (s *Store) readTx() backend.ReadTx {
	for {
		b := s.etcd.Backend()
		tx := b.ConcurrentReadTx()
		tx.RLock()
		if s.etcd.Backend() == b {
			return tx
		}
		tx.RUnlock()
	}
}

// decodeAll decodes the live values on all cores. What the tables have already
// is not decoded again. Values that cannot be read are logged and noted.
func (s *Store) decodeAll(space *keyspace, found map[string]*stored, im *image) {
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
		sl, v := space.slots[st.index], schema.NewResourceVersion(st.rev.Main, st.rev.Sub)
		if e, ok := sl.table.items.Get(&entry{key: st.key}); ok && e.item.Version == v {
			items[i] = e.item
			return
		}
		o, err := s.open(sl.res, []byte(keys[i]), st.value)
		if err != nil {
			errs[i] = err
			return
		}
		items[i] = newItem(sl.res, o, v)
	})
	for i, it := range items {
		n := found[keys[i]].index
		if it == nil {
			s.undecodable(keys[i], errs[i])
			st := found[keys[i]]
			im.lost[n] = append(im.lost[n], &lost{key: st.key, version: schema.NewResourceVersion(st.rev.Main, st.rev.Sub), err: errs[i]})
			continue
		}
		im.items[n] = append(im.items[n], it)
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
