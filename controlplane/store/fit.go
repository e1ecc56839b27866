package store

import (
	"context"
	"net/http"
	"time"

	"go.etcd.io/raft/v3"
	"golang.org/x/sync/errgroup"
)

// fitPath answers whether a member may lead.
const fitPath = "/writ/fit"

// Unfit says why another server should lead; nil when this one may. One that
// cannot read all values would decide on what it takes to be absent: it never
// leads. One whose disk is full would keep all others from writing: it leads only
// while nobody has room, since deletes make some.
func (s *Store) Unfit() error {
	if err := s.Unreadable(); err != nil {
		return err
	}
	return s.room.full()
}

// serveFit tells the leader whether this member could take its place.
func (s *Store) serveFit(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.ready:
	default:
		http.Error(w, "the copy is not loaded", http.StatusServiceUnavailable)
		return
	}
	if err := s.Unfit(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// handOverLoop hands etcd's lead to a member that may lead, whenever this one has
// it and may not, until ctx is done. Where none may, nobody leads: this member
// goes on to order the writes of others.
func (s *Store) handOverLoop(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.rules().election)
	defer tick.Stop()
	for said := false; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		unfit := s.Unfit()
		if unfit == nil || s.etcd.Leader() != s.etcd.MemberID() {
			said = false
			continue
		}
		handed := s.handOver(ctx)
		if !handed && !said && ctx.Err() == nil {
			s.log.Error("this server should not lead, and no other can", "err", unfit)
			said = true
		}
	}
}

// handOver gives etcd's lead to the first member that answers that it may lead.
func (s *Store) handOver(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.rules().patience())
	defer cancel()
	fit := make(chan uint64)
	asked, answered := context.WithCancel(ctx)
	defer answered()
	g, asked := errgroup.WithContext(asked)
	for _, m := range s.etcd.Cluster().Members() {
		if m.IsLearner || m.ID == s.etcd.MemberID() {
			continue
		}
		g.Go(func() error {
			if s.peers.ask(asked, m, fitPath) {
				select {
				case fit <- uint64(m.ID):
				case <-asked.Done():
				}
			}
			return nil
		})
	}
	go func() {
		_ = g.Wait() // none fails
		close(fit)
	}()
	to, ok := <-fit
	if !ok || to == raft.None {
		return false
	}
	if err := s.etcd.MoveLeader(ctx, uint64(s.etcd.MemberID()), to); err != nil {
		s.log.Warn("the lead was not handed over", "to", MemberID(to).String(), "err", err)
		return false
	}
	s.log.Info("the lead was handed over: this server should not lead now", "to", MemberID(to).String())
	return true
}
