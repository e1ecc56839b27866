package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema"
)

const (
	// Events are looked through for old ones this often, and counted more often.
	expireEvery = time.Minute
	countEvery  = 5 * time.Second
	// expireBatch are deleted at once: others' writes come between.
	expireBatch = 100
	// Events that a small cluster keeps, and how many a Pod in a large one.
	leastEvents, eventsPerPod = 5000, 2
)

// mortal is what decides on the end of an Event.
type mortal struct {
	key     schema.Key
	version schema.ResourceVersion
	last    time.Time // that it was seen
}

// expireLoop deletes Events that are old or too many, while this server leads.
// Watchers see them DELETED, as upstream, where a lease of etcd ends them; unlike
// leases this also bounds their number.
func (s *Store) expireLoop(ctx context.Context) error {
	events := schema.ResourceFor[*corev1.Event]()
	tick := time.NewTicker(min(countEvery, s.cfg.expireEvery))
	defer tick.Stop()
	var last time.Time
	for {
		snap, now := s.Snapshot(events), time.Now()
		most := s.mostEvents()
		due := s.cfg.EventTTL > 0 && now.Sub(last) >= s.cfg.expireEvery
		if due || snap.Len() > most {
			last = now
			old := expired(mortals(snap), now, s.cfg.EventTTL, most)
			if err := s.expire(ctx, events, old); err != nil && ctx.Err() == nil {
				s.log.Warn("old events stay for now", "err", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// mostEvents is how many Events there may be.
func (s *Store) mostEvents() int {
	if s.cfg.MaxEvents > 0 {
		return s.cfg.MaxEvents
	}
	return max(leastEvents, eventsPerPod*s.Snapshot(schema.ResourceFor[*corev1.Pod]()).Len())
}

func mortals(snap Snapshot) []mortal {
	all := make([]mortal, 0, snap.Len())
	for it := range snap.All() {
		if e, ok := it.Object.(*corev1.Event); ok {
			all = append(all, mortal{it.Key, it.Version, lastSeen(e)})
		}
	}
	return all
}

// lastSeen is when what an Event tells of happened last. Its creation is the
// server's word, the rest that of who wrote it.
func lastSeen(e *corev1.Event) time.Time {
	at := e.CreationTimestamp.Time
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time} {
		if t.After(at) {
			at = t
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}

// expired are the Events that go: those that were seen last a TTL ago (0: none),
// and the oldest of those that are too many. Of these each namespace keeps the
// same share, so that one that is noisy does not take away what others have to
// tell; twentieths of the most go at once, so that the next event is not one too
// many again.
func expired(all []mortal, now time.Time, ttl time.Duration, most int) (out []mortal) {
	spaces := map[string][]mortal{}
	n := 0
	for _, m := range all {
		if ttl > 0 && now.Sub(m.last) >= ttl {
			out = append(out, m)
			continue
		}
		spaces[m.key.Namespace] = append(spaces[m.key.Namespace], m)
		n++
	}
	if n <= most {
		return out
	}
	share := fairShare(spaces, most-most/20)
	for _, in := range spaces {
		if len(in) > share {
			slices.SortFunc(in, func(a, b mortal) int {
				return cmp.Or(a.last.Compare(b.last), cmp.Compare(a.version, b.version))
			})
			out = append(out, in[:len(in)-share]...)
		}
	}
	return out
}

// fairShare is the most that each namespace may keep for all to fit.
func fairShare(spaces map[string][]mortal, most int) int {
	sizes := make([]int, 0, len(spaces))
	for _, in := range spaces {
		sizes = append(sizes, len(in))
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		share := most / (len(sizes) - i)
		if size > share {
			return share
		}
		most -= size
	}
	return most
}

// expire deletes Events that have not changed since.
func (s *Store) expire(ctx context.Context, r *schema.Resource, old []mortal) error {
	for batch := range slices.Chunk(old, expireBatch) {
		if err := s.deleteAll(ctx, r, batch); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) deleteAll(ctx context.Context, r *schema.Resource, batch []mortal) error {
	writes := make([]Write, len(batch))
	for i, m := range batch {
		writes[i] = Write{Resource: r, Key: m.key, Expect: m.version}
	}
	_, err := s.Txn(ctx, writes)
	var conflict *ConflictError
	switch {
	case err == nil:
		s.met.expired.Add(float64(len(batch)))
		return nil
	case !errors.As(err, &conflict):
		return err
	case len(batch) == 1:
		return nil // it was seen again
	}
	for _, half := range [][]mortal{batch[:len(batch)/2], batch[len(batch)/2:]} {
		if err := s.deleteAll(ctx, r, half); err != nil {
			return err
		}
	}
	return nil
}
