package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/btree"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/writ-os/writ/schema"
)

// UnreadableError says that this server cannot read values of a resource: it
// does not have the key that they are encrypted with, its key service does not
// answer, or they are damaged. The objects exist. Nobody may take them for
// deleted, so that nothing of the resource is served until all of it can be read.
type UnreadableError struct {
	Resource *schema.Resource
	// Count of the values, the first of them by key, and why it cannot be read.
	Count int
	Key   schema.Key
	Err   error
}

// Error implements error.
func (e *UnreadableError) Error() string {
	what := fmt.Sprintf("the stored value of %v %v cannot be read by this server", e.Resource, e.Key)
	if e.Count > 1 {
		what = fmt.Sprintf("%d stored values of %v cannot be read by this server, the first of them %v", e.Count, e.Resource, e.Key)
	}
	return fmt.Sprintf("%s: %v: put its key back into the encryption configuration of this server, which is read again by itself; "+
		"where the value is damaged, delete it with ignoreStoreReadErrorWithClusterBreakingPotential, or restore a backup", what, e.Err)
}

// Unwrap says why.
func (e *UnreadableError) Unwrap() error { return e.Err }

// lost is a value that cannot be read.
type lost struct {
	key     schema.Key
	version schema.ResourceVersion
	err     error
}

type lostTree = *btree.BTreeG[*lost]

func newLostTree() lostTree {
	return btree.NewG(degree, func(a, b *lost) bool { return lessKey(a.key, b.key) })
}

// lose notes that the newest value of a key cannot be read. What was known of
// the key before stays as it is.
func (t *table) lose(l *lost) {
	t.dirty = true
	t.lost.ReplaceOrInsert(l)
}

// regain forgets that a value of a key could not be read.
func (t *table) regain(key schema.Key) {
	if _, was := t.lost.Delete(&lost{key: key}); was {
		t.dirty = true
	}
}

// unreadable is nil when all values of a resource can be read.
func (f *frozen) unreadable(r *schema.Resource) error {
	if f.lost == nil || f.lost.Len() == 0 {
		return nil
	}
	first, _ := f.lost.Min()
	return &UnreadableError{Resource: r, Count: f.lost.Len(), Key: first.key, Err: first.err}
}

// Unreadable is an *UnreadableError when this server cannot read all values of a
// resource, and nil otherwise: then what the view lacks does not exist.
func (v View) Unreadable(r *schema.Resource) error { return v.st.table(r).unreadable(r.Stored()) }

// Unreadable joins the *UnreadableError of each resource that has such values;
// nil when this server can read all. While it cannot, it does not lead.
func (s *Store) Unreadable() error {
	if s.lostValues.Load() == 0 { // it is asked for at each tick and with each write
		return nil
	}
	return errors.Join(s.UnreadableKinds()...)
}

// UnreadableKinds are the same, one by one.
func (s *Store) UnreadableKinds() (errs []error) {
	st := s.state.Load()
	if s.lostValues.Load() == 0 {
		return nil
	}
	for i, sl := range st.keys.slots {
		if sl == nil {
			continue
		}
		if err := st.tables[i].unreadable(sl.res); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// noteUnreadable shows a state whose unreadable values may be others than before:
// to watches, to who leads, and in the metrics.
func (s *Store) noteUnreadable() {
	st, n := s.state.Load(), 0
	for i, sl := range st.keys.slots {
		if sl == nil {
			continue
		}
		n += st.tables[i].lost.Len()
		sl.log.fail(st.tables[i].unreadable(sl.res))
	}
	if s.lostValues.Swap(int64(n)) == int64(n) {
		return
	}
	s.met.unreadableValues.Set(float64(n))
	wake(s.fitness)
	wake(s.rereadNow)
}

// ErrReadable refuses to delete what is not unreadable as if it were.
var ErrReadable = errors.New("its value can be read, or it is gone")

// DeleteUnreadable deletes an object whose value this server cannot read. Nobody
// knows what depended on it; those who follow hear of it if they knew the object.
func (s *Store) DeleteUnreadable(ctx context.Context, r *schema.Resource, key schema.Key) error {
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	l, ok := s.state.Load().table(r).lost.Get(&lost{key: key})
	if !ok {
		return ErrReadable
	}
	name, err := s.keys.Load().encode(r, key)
	if err != nil {
		return err
	}
	resp, err := s.propose(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Key: []byte(name), Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_ModRevision{ModRevision: l.version.Main()},
		}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(name)}}}},
	})
	switch {
	case err != nil:
		return s.explain(err)
	case !resp.Succeeded:
		return ErrReadable // another state of it, or none
	}
	return s.WaitFor(ctx, schema.NewResourceVersion(resp.Header.Revision, 0))
}

// wake lets the one that waits for a channel of one place go on.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
