package store

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"golang.org/x/sync/errgroup"
)

// roomPath answers whether a member has room for writes; if not, why.
const roomPath = "/writ/room"

// roomEvery is how often a server looks at its disk, and asks the others.
const roomEvery = 2 * time.Second

// crowd is what the voters of a cluster say of their room.
type crowd struct {
	voters int
	leader uint64
	full   map[uint64]string // why, by member
	names  map[uint64]string
}

// refusal is why no server takes puts now; "" when they do. A leader without room
// hands its lead over; while it cannot, its log must not fill. Where the others
// of a majority have none, what is written would end them. One that does not
// answer counts as one with room.
func (c crowd) refusal() string {
	id := c.leader
	if c.full[id] == "" {
		if c.voters-len(c.full) > c.voters/2 {
			return ""
		}
		ids := make([]uint64, 0, len(c.full))
		for id := range c.full {
			ids = append(ids, id)
		}
		id = slices.Min(ids)
	}
	return fmt.Sprintf("server %s: %s", c.names[id], c.full[id])
}

// Full says why puts are refused now, by this server or by all; nil when they are
// not.
func (s *Store) Full() error {
	if err := s.room.full(); err != nil {
		return err
	}
	if why := s.crowded.Load(); why != nil && *why != "" {
		return fmt.Errorf("%w: %s: delete objects, or make room there", ErrNoSpace, *why)
	}
	return nil
}

// serveRoom tells another member whether this one has room.
func (s *Store) serveRoom(w http.ResponseWriter, _ *http.Request) {
	if err := s.room.full(); err != nil {
		http.Error(w, strings.TrimPrefix(err.Error(), ErrNoSpace.Error()+": "), http.StatusInsufficientStorage)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// roomLoop looks at the disk and asks the others about theirs, until ctx is done.
func (s *Store) roomLoop(ctx context.Context) error {
	tick := time.NewTicker(min(roomEvery, 20*s.cfg.Tick))
	defer tick.Stop()
	for {
		was := s.room.full() != nil
		s.room.look(s.etcd.Backend().SizeInUse)
		if now := s.room.full(); was != (now != nil) {
			if now != nil {
				s.log.Error("no room for writes", "err", now)
			}
			wake(s.fitness)
		}
		if s.peers != nil {
			why := s.askRoom(ctx).refusal()
			s.crowded.Store(&why)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// askRoom asks all voters.
func (s *Store) askRoom(ctx context.Context) crowd {
	ctx, cancel := context.WithTimeout(ctx, roomEvery)
	defer cancel()
	c := crowd{leader: uint64(s.etcd.Leader()), full: map[uint64]string{}, names: map[uint64]string{}}
	type answer struct {
		m    *membership.Member
		full string
	}
	answers := make(chan answer)
	g := errgroup.Group{}
	for _, m := range s.etcd.Cluster().Members() {
		if m.IsLearner {
			continue
		}
		c.voters++
		g.Go(func() error {
			a := answer{m: m}
			if m.ID != s.etcd.MemberID() {
				if code, text := s.peers.get(ctx, m, roomPath); code == http.StatusInsufficientStorage {
					a.full = strings.TrimSpace(text)
				}
			} else if err := s.room.full(); err != nil {
				a.full = strings.TrimPrefix(err.Error(), ErrNoSpace.Error()+": ")
			}
			answers <- a
			return nil
		})
	}
	go func() {
		_ = g.Wait() // none fails
		close(answers)
	}()
	for a := range answers {
		if a.full != "" {
			c.full[uint64(a.m.ID)], c.names[uint64(a.m.ID)] = a.full, a.m.Name
		}
	}
	return c
}
