package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
)

// Joining is what a server needs to become the member that was added, besides
// its certificates: Peers is its Members.Join.
type Joining struct {
	ID    MemberID `json:"id"`
	Peers []string `json:"peers"`
}

// changePatience bounds a change of the members. etcd makes none until all who
// vote have been connected for five seconds, and has one learner at a time.
const changePatience = 30 * time.Second

// Members are all members of the cluster, as far as this one knows.
func (s *Store) Members(ctx context.Context) ([]Member, error) {
	if err := s.awaitReady(ctx); err != nil {
		return nil, err
	}
	var all []Member
	for _, m := range s.etcd.Cluster().Members() {
		out := Member{
			ID: MemberID(m.ID), Name: m.Name, Learner: m.IsLearner,
			Leader: m.ID == s.etcd.Leader(), Self: m.ID == s.etcd.MemberID(),
		}
		if len(m.PeerURLs) > 0 {
			out.URL = m.PeerURLs[0]
		}
		all = append(all, out)
	}
	return all, nil
}

// AddMember makes a server a member of the cluster, by the URL where the others
// will reach it. It follows without a vote until it is in step; then the leader
// gives it one. A server that was added and has not started yet is added again
// without harm.
//
// Any member may do it while the majority is connected; it waits up to 30 s for
// the member that was added before to get its vote.
func (s *Store) AddMember(ctx context.Context, name, url string) (*Joining, error) {
	if err := checkPeerURL(url); err != nil {
		return nil, err
	}
	urls, err := types.NewURLs([]string{url})
	if err != nil {
		return nil, err
	}
	// The ID has only seconds of the time in it: without a word of chance, one
	// that is removed and added at once would be the removed one.
	now := time.Now()
	learner := membership.NewMemberAsLearner("", urls, rand.Text(), &now)
	var joining *Joining
	err = s.alterMembers(ctx, func(ctx context.Context) error {
		all := s.etcd.Cluster().Members()
		if i := slices.IndexFunc(all, func(m *membership.Member) bool { return m.Name == name || slices.Contains(m.PeerURLs, url) }); i >= 0 {
			if m := all[i]; m.IsStarted() {
				return fmt.Errorf("%s at %v is a member already, as %s: remove it first", m.Name, m.PeerURLs, m.ID)
			}
			joining = s.joining(MemberID(all[i].ID))
			return nil
		}
		if _, err := s.etcd.AddMember(ctx, *learner); err != nil {
			return err
		}
		joining = s.joining(MemberID(learner.ID))
		s.log.Info("added a member", "name", name, "url", url, "id", joining.ID.String())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("add member %s: %w", name, err)
	}
	return joining, nil
}

func (s *Store) joining(id MemberID) *Joining {
	j := &Joining{ID: id}
	for _, m := range s.etcd.Cluster().Members() {
		if MemberID(m.ID) != id {
			j.Peers = append(j.Peers, m.PeerURLs...)
		}
	}
	return j
}

// RemoveMember takes a server out of the cluster, for good: its store ends with
// ErrRemoved when it hears of it. etcd refuses when those who remain would not
// be a majority that is connected. One that leads hands over first, so that
// nobody waits for an election.
//
// A member does not remove itself: the answer would be lost with it.
func (s *Store) RemoveMember(ctx context.Context, id MemberID) error {
	err := s.alterMembers(ctx, func(ctx context.Context) error {
		if id == MemberID(s.etcd.MemberID()) {
			return fmt.Errorf("a server does not remove itself: ask another one")
		}
		if err := s.takeOver(ctx, id); err != nil {
			return err
		}
		_, err := s.etcd.RemoveMember(ctx, uint64(id))
		return err
	})
	if errors.Is(err, membership.ErrIDRemoved) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove member %v: %w", id, err)
	}
	s.log.Info("removed a member", "id", id.String())
	return nil
}

// takeOver makes this member lead etcd in the place of another, if that one
// leads. It goes on without where that does not work: then there is an election.
func (s *Store) takeOver(ctx context.Context, from MemberID) error {
	self := s.etcd.Cluster().Member(s.etcd.MemberID())
	if s.etcd.Leader() != types.ID(from) || self == nil || self.IsLearner {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, s.cfg.rules().patience())
	defer cancel()
	if err := s.etcd.MoveLeader(soon, uint64(from), uint64(self.ID)); err != nil {
		s.log.Warn("the leader that is removed does not hand over: there will be an election", "leader", from.String(), "err", err)
	}
	return ctx.Err()
}

// alterMembers tries a change of the members until etcd takes it.
func (s *Store) alterMembers(ctx context.Context, change func(context.Context) error) error {
	if s.cfg.Members == nil {
		return fmt.Errorf("this server is alone and listens to no other")
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, changePatience)
	defer cancel()
	for {
		l, err := s.awaitLeader(ctx)
		if err == nil {
			err = s.alterOnce(ctx, l.era, change)
		}
		if err == nil || !passes(err) {
			return err
		}
		if ended := s.pause(ctx); ended != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

func (s *Store) alterOnce(ctx, era context.Context, change func(context.Context) error) error {
	s.alterMu.Lock() // etcd loses one of two that come together
	defer s.alterMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, changePatience/6)
	defer cancel()
	defer context.AfterFunc(era, cancel)()
	return change(ctx)
}

// passes says whether a refusal of etcd may be over soon.
func passes(err error) bool {
	return slices.ContainsFunc([]error{
		ErrUnavailable, etcderrors.ErrUnhealthy, etcderrors.ErrNotEnoughStartedMembers, membership.ErrTooManyLearners,
		etcderrors.ErrTimeout, etcderrors.ErrTimeoutDueToLeaderFail, etcderrors.ErrTimeoutDueToConnectionLost,
		etcderrors.ErrCanceled, etcderrors.ErrLeaderChanged,
	}, func(e error) bool { return errors.Is(err, e) })
}

// promoteLoop gives learners their vote, while this member leads etcd.
func (s *Store) promoteLoop(ctx context.Context) error {
	tick := time.NewTicker(2 * s.cfg.Tick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if s.etcd.Leader() != s.etcd.MemberID() {
			continue
		}
		for _, m := range s.etcd.Cluster().Members() {
			if m.IsLearner {
				s.promote(ctx, m)
			}
		}
	}
}

// promote gives a learner its vote if it is in step. etcd's own condition, nine
// tenths of the log, may leave it behind by more than the log still holds; it
// would have a vote and no way to use it until it got a snapshot.
func (s *Store) promote(ctx context.Context, m *membership.Member) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.rules().patience())
	defer cancel()
	if !s.peers.inStep(ctx, m) {
		return
	}
	if _, err := s.etcd.PromoteMember(ctx, uint64(m.ID)); err != nil {
		if ctx.Err() == nil && !errors.Is(err, etcderrors.ErrLearnerNotReady) {
			s.log.Warn("the member that joined gets no vote yet", "name", m.Name, "id", m.ID.String(), "err", err)
		}
		return
	}
	s.log.Info("the member that joined has a vote", "name", m.Name, "id", m.ID.String())
}

// moveTo tells the others where this member is, when that is not where it was.
func (e *etcdServer) moveTo(ctx context.Context, url string) error {
	self := e.server.Cluster().Member(e.server.MemberID())
	if self == nil || self.IsLearner || slices.Equal(self.PeerURLs, []string{url}) {
		return nil
	}
	self.PeerURLs = []string{url} // self is a copy
	for {
		once, cancel := context.WithTimeout(ctx, changePatience/6)
		_, err := e.server.UpdateMember(once, *self)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !passes(err) {
			return fmt.Errorf("tell the members that this one is at %s: %w", url, err)
		}
	}
}
