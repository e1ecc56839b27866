package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/raft/v3"

	"github.com/writ-os/writ/schema"
)

// Write is one write of a Txn.
type Write struct {
	Resource *schema.Resource
	Key      schema.Key
	// Object to store, nil to delete. The store takes it over; its
	// resourceVersion does not matter.
	Object schema.Object
	// Expect is the version that the stored object must have; 0 demands that
	// there is none.
	Expect schema.ResourceVersion
	// Unconditional drops the demand of Expect.
	Unconditional bool
}

// pendingWrite is a write on its way through etcd.
type pendingWrite struct {
	delete bool
	value  []byte
	object schema.Object // decoded from value; nil once the applier has taken it
	got    []*Item       // what the applier made of it, guarded by Store.mu
}

// Txn stores all writes at one etcd revision, or none of them, and returns when
// the copy has them: the stored items in the order of the writes, of deleted
// ones the last state (nil if an unconditional delete found none).
//
// A precondition that does not hold gives a *ConflictError, a resource that has
// unreadable values an *UnreadableError. No two writes may have the same key.
func (s *Store) Txn(ctx context.Context, writes []Write) ([]*Item, error) {
	if len(writes) == 0 {
		return nil, nil
	}
	if err := s.awaitReady(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := s.readable(writes); err != nil {
		return nil, err
	}
	keys, pending, err := s.prepare(writes)
	if err != nil {
		return nil, err
	}
	s.enter(keys, pending)
	defer s.leave(keys, pending)

	resp, err := s.propose(ctx, request(writes, keys, pending))
	if err != nil {
		return nil, s.explain(err)
	}
	// It is decided: what remains takes no longer than the copy needs.
	if err := s.WaitFor(context.WithoutCancel(ctx), schema.NewResourceVersion(resp.Header.Revision, 0)); err != nil {
		return nil, fmt.Errorf("%w: it was decided, and this server ended: %w", ErrUnknownOutcome, err)
	}
	if !resp.Succeeded {
		s.met.conflicts.Inc()
		return nil, s.conflict(writes)
	}
	items := s.collect(resp.Header.Revision, pending)
	if err := whole(writes, items); err != nil {
		return nil, err
	}
	s.met.txnSeconds.Observe(time.Since(began).Seconds())
	return items, nil
}

// prepare encodes the writes and checks that they fit.
func (s *Store) prepare(writes []Write) ([]string, []*pendingWrite, error) {
	if len(writes) > s.cfg.MaxTxnWrites {
		return nil, nil, &TooLargeError{Writes: len(writes), MaxWrites: s.cfg.MaxTxnWrites}
	}
	space := s.keys.Load()
	keys := make([]string, len(writes))
	seen := make(map[string]struct{}, len(writes))
	for i, w := range writes {
		key, err := space.encode(w.Resource, w.Key)
		if err != nil {
			return nil, nil, err
		}
		if _, twice := seen[key]; twice {
			return nil, nil, fmt.Errorf("%v %v is written twice in one transaction", w.Resource, w.Key)
		}
		seen[key] = struct{}{}
		keys[i] = key
	}
	pending := make([]*pendingWrite, len(writes))
	errs := make([]error, len(writes))
	inParallel(len(writes), func(i int) { pending[i], errs[i] = s.encode(writes[i], keys[i]) })
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	size, puts := 0, false
	for i, p := range pending {
		size += len(p.value) + 2*len(keys[i]) + 64 // compare, put and framing
		puts = puts || !p.delete
	}
	if size > s.cfg.MaxTxnBytes {
		return nil, nil, &TooLargeError{Bytes: size, MaxBytes: s.cfg.MaxTxnBytes}
	}
	if puts {
		if err := s.mayPut(size); err != nil {
			return nil, nil, err
		}
	}
	return keys, pending, nil
}

// mayPut refuses what there is no room for.
func (s *Store) mayPut(size int) error {
	if why := s.crowded.Load(); why != nil && *why != "" {
		return s.Full()
	}
	return s.room.take(int64(size), s.etcd.Backend().SizeInUse)
}

// encode makes the value of a write, and at once the object that a reader of
// the value gets: what the copy holds is what a restart would load, and the
// applier has less to do.
func (s *Store) encode(w Write, key string) (*pendingWrite, error) {
	if w.Object == nil {
		return &pendingWrite{delete: true}, nil
	}
	r := w.Resource.Stored()
	value, err := encodeValue(w.Object)
	if err != nil {
		return nil, fmt.Errorf("store %v %v: %w", r, w.Key, err)
	}
	o, err := decodeValue(r, value)
	if err != nil {
		return nil, err
	}
	if got := schema.KeyOf(o); got != w.Key {
		return nil, fmt.Errorf("store %v %v: the object is named %v", w.Resource, w.Key, got)
	}
	if value, err = s.cfg.Sealer.Seal(r, key, value); err != nil {
		return nil, fmt.Errorf("store %v %v: %w", r, w.Key, err)
	}
	return &pendingWrite{value: value, object: o}, nil
}

func request(writes []Write, keys []string, pending []*pendingWrite) *pb.TxnRequest {
	req := &pb.TxnRequest{Success: make([]*pb.RequestOp, len(writes))}
	for i, w := range writes {
		key := []byte(keys[i])
		if !w.Unconditional {
			req.Compare = append(req.Compare, &pb.Compare{
				Key: key, Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
				TargetUnion: &pb.Compare_ModRevision{ModRevision: w.Expect.Main()},
			})
		}
		if pending[i].delete {
			req.Success[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}}
		} else {
			req.Success[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: pending[i].value}}}
		}
	}
	return req
}

func (s *Store) enter(keys []string, pending []*pendingWrite) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range pending {
		s.pending[keys[i]] = append(s.pending[keys[i]], p)
	}
}

func (s *Store) leave(keys []string, pending []*pendingWrite) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range pending {
		all := s.pending[keys[i]]
		if len(all) == 1 {
			delete(s.pending, keys[i])
			continue
		}
		rest := make([]*pendingWrite, 0, len(all)-1)
		for _, q := range all {
			if q != p {
				rest = append(rest, q)
			}
		}
		s.pending[keys[i]] = rest
	}
}

// collect returns what the applier made of the writes at a revision.
func (s *Store) collect(main int64, pending []*pendingWrite) []*Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := make([]*Item, len(pending))
	for i, p := range pending {
		for _, it := range p.got {
			if it.Version.Main() == main {
				items[i] = it
			}
		}
	}
	return items
}

// whole refuses what was stored while the copy was read anew and was written
// over since: nobody knows any more what it looked like.
func whole(writes []Write, items []*Item) error {
	for i, w := range writes {
		if items[i] == nil && (w.Object != nil || !w.Unconditional && w.Expect != 0) {
			return fmt.Errorf("%w: it is stored, and the copy was replaced meanwhile", ErrUnknownOutcome)
		}
	}
	return nil
}

// readable refuses writes of resources that have values which cannot be read:
// nobody knows what they would be written over.
func (s *Store) readable(writes []Write) error {
	v := s.View()
	var last *schema.Resource
	for _, w := range writes {
		if w.Resource == last {
			continue
		}
		if err := v.Unreadable(w.Resource); err != nil {
			return err
		}
		last = w.Resource
	}
	return nil
}

// conflict finds the first write whose precondition does not hold.
func (s *Store) conflict(writes []Write) error {
	v := s.View()
	if err := s.readable(writes); err != nil {
		return err
	}
	for i, w := range writes {
		var have schema.ResourceVersion
		if it := v.Get(w.Resource, w.Key); it != nil {
			have = it.Version
		}
		if !w.Unconditional && have != w.Expect {
			return &ConflictError{Index: i, Resource: w.Resource, Key: w.Key}
		}
	}
	// It changed and changed back.
	return &ConflictError{Index: 0, Resource: writes[0].Resource, Key: writes[0].Key}
}

// explain turns an error of etcd into one of ours.
func (s *Store) explain(err error) error {
	switch {
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed):
		return err
	case errors.Is(err, etcderrors.ErrTooManyRequests):
		return fmt.Errorf("%w: this server is far behind the others", ErrUnavailable)
	case errors.Is(err, etcderrors.ErrNoSpace):
		return fmt.Errorf("%w: the database has reached its quota", ErrNoSpace)
	case errors.Is(err, etcderrors.ErrCorrupt):
		return fmt.Errorf("%w: the data of a server is damaged, and writes are refused until it has ended", ErrUnavailable)
	case errors.Is(err, etcderrors.ErrRequestTooLarge):
		return &TooLargeError{Bytes: s.cfg.MaxTxnBytes + 1, MaxBytes: s.cfg.MaxTxnBytes}
	case errors.Is(err, etcderrors.ErrStopped), errors.Is(err, raft.ErrStopped):
		return fmt.Errorf("%w: this server ended meanwhile", ErrUnknownOutcome) // it may be on its way to the others
	case errors.Is(err, etcderrors.ErrTimeout), errors.Is(err, etcderrors.ErrTimeoutDueToLeaderFail),
		errors.Is(err, etcderrors.ErrTimeoutDueToConnectionLost), errors.Is(err, etcderrors.ErrCanceled),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return fmt.Errorf("commit to etcd: %w", err)
}
