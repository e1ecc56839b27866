package store

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// forgetEvery is how long an encoding is kept that nobody asks for.
const forgetEvery = time.Minute

// trimEvery is how often the events kept for watches are gone through.
const trimEvery = 5 * time.Second

// History that nobody reads is dropped after CompactEvery, and sooner where there
// is more of it than this, and than there are objects: etcd keeps a place in memory
// for each change, and the file of the store grows by it.
const (
	historyLooks = 5 // in CompactEvery
	historyMost  = 10_000
)

// compactLoop drops what is old: etcd's history, and the events kept for watches,
// and encodings that nobody asks for.
func (s *Store) compactLoop(ctx context.Context) error {
	history := time.NewTicker(s.cfg.CompactEvery / historyLooks)
	defer history.Stop()
	events := time.NewTicker(min(s.cfg.EventAge/4, trimEvery))
	defer events.Stop()
	encodings := time.NewTicker(forgetEvery)
	defer encodings.Stop()
	mark, done := s.Version().Main(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-encodings.C:
			s.forgetEncodings()
		case now := <-events.C:
			for _, sl := range s.keys.Load().slots {
				if sl != nil {
					sl.log.trim(now, s.cfg.EventAge)
					if err := sl.log.pack(now); err != nil {
						s.log.Error("events stay as they are in memory", "err", err)
					}
				}
			}
		case now := <-history.C:
			// What one drops, all drop. What is younger than a look stays.
			if s.IsLeader() && (now.Sub(done) >= s.cfg.CompactEvery || s.tooMuchHistory(mark)) {
				if err := s.compact(ctx, mark); err != nil && ctx.Err() == nil {
					s.log.Warn("compaction put off", "err", err)
				}
				done = now
			}
			mark = s.Version().Main()
		}
	}
}

// tooMuchHistory says whether there is more before a revision than is kept for a
// while.
func (s *Store) tooMuchHistory(rev int64) bool {
	return rev-s.etcd.KV().FirstRev() > max(historyMost, s.state.Load().len())
}

// len is how many objects there are, of all resources.
func (st *state) len() (n int64) {
	for i, sl := range st.keys.slots {
		if sl != nil {
			n += int64(st.tables[i].items.Len())
		}
	}
	return n
}

// compact drops the history before a revision. The newest revision is never
// compacted: its sub revisions say where the versions go on after a restart.
func (s *Store) compact(ctx context.Context, rev int64) error {
	rev = min(rev, s.Version().Main()-1)
	if rev <= s.etcd.KV().FirstRev() {
		return nil
	}
	if _, err := s.etcd.Compact(ctx, &pb.CompactionRequest{Revision: rev}); err != nil {
		return fmt.Errorf("compact before revision %d: %w", rev, err)
	}
	return nil
}
