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

// compactLoop drops what is older than CompactEvery: etcd's history, and the
// events kept for watches, and encodings that nobody asks for.
func (s *Store) compactLoop(ctx context.Context) error {
	history := time.NewTicker(s.cfg.CompactEvery)
	defer history.Stop()
	events := time.NewTicker(min(s.cfg.EventAge/4, trimEvery))
	defer events.Stop()
	encodings := time.NewTicker(forgetEvery)
	defer encodings.Stop()
	mark := s.Version().Main()
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
		case <-history.C:
			if !s.IsLeader() {
				// What one drops, all drop.
			} else if err := s.compact(ctx, mark); err != nil && ctx.Err() == nil {
				s.log.Warn("compaction put off", "err", err)
			}
			mark = s.Version().Main()
		}
	}
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
