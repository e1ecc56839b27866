package store

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"github.com/writ-os/writ/schema"
)

const (
	resealEvery = time.Hour // a key service may have another key by itself
	resealPage  = 500
	// resealPause is between two values that are stored anew: 200 in a second at
	// most, so that others' writes hardly notice.
	resealPause = 5 * time.Millisecond
)

// reseal stores anew what a write would store in another form: with the newest
// key, or encrypted at all. It runs while this server leads, at once, when the
// Sealer has changed, and every hour. It keeps no note of how far it is: whoever
// leads next looks at all values again, and those that are done are skipped.
//
// As with upstream's storage migration, watchers see the object change though
// nothing in it has but its version.
func (s *Store) reseal(ctx context.Context) error {
	if _, none := s.cfg.Sealer.(plain); none {
		<-ctx.Done()
		return nil
	}
	for {
		began := time.Now()
		done, left, err := s.resealAll(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.log.Error("not all values are stored under the newest key", "stored", done, "left", left, "err", err)
		case done > 0:
			s.log.Info("all values are stored under the newest key", "stored", done, "took", time.Since(began))
		}
		select {
		case <-s.resealNow:
		case <-time.After(resealEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// resealAll looks at every value once, and returns how many it has stored anew
// and how many it could not.
func (s *Store) resealAll(ctx context.Context) (done, left int, err error) {
	stale := 0
	for _, store := range []bool{false, true} { // first count, so that the metric says what is left
		for _, sl := range s.keys.Load().slots {
			if sl == nil {
				continue
			}
			failed := s.eachStale(ctx, sl.res, func(kv *mvccpb.KeyValue, plain []byte) error {
				if !store {
					stale++
					return nil
				}
				if err := s.resealOne(ctx, sl.res, kv, plain); err != nil {
					left++
					return err
				}
				done++
				s.met.resealed.Inc()
				s.met.stale.Set(float64(max(stale-done, 0)))
				return nil
			})
			if failed != nil {
				err = failed
			}
		}
		s.met.stale.Set(float64(max(stale-done, 0)))
		if stale == 0 || ctx.Err() != nil {
			return done, left, err
		}
	}
	return done, left, err
}

// eachStale calls fn with every value of a resource that a write would store in
// another form. It goes on after an error, and returns the last.
func (s *Store) eachStale(ctx context.Context, r *schema.Resource, fn func(kv *mvccpb.KeyValue, plain []byte) error) (err error) {
	prefix := root + r.StoragePrefix
	space := newKeyspace([]*schema.Resource{r}, 0)
	for from := []byte(prefix + "/"); ctx.Err() == nil; {
		page, ranged := s.etcd.KV().Range(ctx, from, []byte(prefix+"0"), mvcc.RangeOptions{Limit: resealPage})
		if ranged != nil {
			return fmt.Errorf("read %v: %w", r, ranged)
		}
		for _, kv := range page.KVs {
			if _, _, ok := space.decode(kv.Key); !ok || ctx.Err() != nil {
				continue
			}
			plain, stale, opened := s.cfg.Sealer.Open(r, string(kv.Key), kv.Value)
			if opened == nil && stale {
				opened = fn(kv, plain)
			}
			if opened != nil {
				err = opened
			}
		}
		if len(page.KVs) < resealPage {
			return err
		}
		from = append(page.KVs[len(page.KVs)-1].Key, 0)
	}
	return ctx.Err()
}

// resealOne stores one value anew, unless it has changed since.
func (s *Store) resealOne(ctx context.Context, r *schema.Resource, kv *mvccpb.KeyValue, plain []byte) error {
	value, err := s.cfg.Sealer.Seal(r, string(kv.Key), plain)
	if err != nil {
		return fmt.Errorf("store %s anew: %w", kv.Key, err)
	}
	if err := s.room.take(int64(len(value)), s.etcd.Backend().SizeInUse); err != nil {
		return err
	}
	if _, err := s.propose(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Key: kv.Key, Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_ModRevision{ModRevision: kv.ModRevision},
		}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: kv.Key, Value: value}}}},
	}); err != nil {
		return fmt.Errorf("store %s anew: %w", kv.Key, s.explain(err))
	}
	select {
	case <-time.After(resealPause):
	case <-ctx.Done():
	}
	return nil
}
