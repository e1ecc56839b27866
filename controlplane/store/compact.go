package store

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// compactLoop drops what is older than CompactEvery: etcd's history, and the
// events kept for watches, and encodings that nobody asks for.
func (s *Store) compactLoop(ctx context.Context) error {
	history := time.NewTicker(s.cfg.CompactEvery)
	defer history.Stop()
	events := time.NewTicker(s.cfg.EventAge / 2)
	defer events.Stop()
	mark := s.Version().Main()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-events.C:
			s.forgetEncodings()
			for _, sl := range s.keys.Load().slots {
				if sl != nil {
					sl.log.trim(now, s.cfg.EventAge)
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
