package store

import (
	"context"
	"time"
)

// lead is what a server knows of who leads. It never changes; another one takes
// its place.
type lead struct {
	leader MemberID  // of etcd; 0 when there is none
	since  time.Time // that it is so
	leads  bool      // this server
	rivals bool      // another member may lead
	// changed is closed when leads is no longer so.
	changed chan struct{}
	// era ends a while after the leader has changed: what was asked of the one
	// before will hardly be answered.
	era context.Context //nolint:containedctx // it is a part of the state, not of a call
	end context.CancelFunc
}

// rules are the times of leading, in terms of the time E without a word from a
// leader after which etcd elects another.
type rules struct {
	election, tick time.Duration
}

func (c Config) rules() rules {
	return rules{election: electionTicks * c.Tick, tick: c.Tick}
}

// patience is how long there may be no leader before a request is refused.
// An election takes up to two E, and a second one when votes are split.
func (r rules) patience() time.Duration { return 3 * r.election }

// lease is how long a leader goes on after the moment at which it asked the
// majority, with success, whether it still leads. etcd's own word comes later
// when its log waits for a slow disk: it hears of nothing meanwhile.
func (r rules) lease() time.Duration { return 2 * r.election }

// handover is how long a leader of etcd waits before it says that it leads. The
// others elect it no sooner than one E after the majority last heard from the
// one before, whose lease ends one E after that. So the two never both say that
// they lead: clocks need only run equally fast.
func (r rules) handover() time.Duration { return r.election + 3*r.tick }

// next is what follows from what was known, when etcd names a leader. confirmed
// is when this one last asked the majority, and fit that it may lead.
func (r rules) next(was lead, now time.Time, leader, self MemberID, rivals, fit bool, confirmed time.Time) lead {
	is := was
	if leader != was.leader || was.since.IsZero() {
		is.leader, is.since = leader, now
	}
	is.rivals = rivals
	is.leads = fit && leader == self && (!rivals || now.Sub(is.since) >= r.handover() && now.Sub(confirmed) < r.lease())
	return is
}

// followLead watches who leads until ctx is done. etcd says when there is a new
// leader, not when there is none: so that it is asked at every tick.
func (s *Store) followLead(ctx context.Context) error {
	every := s.cfg.Tick
	if s.peers == nil {
		every = time.Second // nobody takes the lead away
	}
	rules, tick := s.cfg.rules(), time.NewTicker(every)
	defer tick.Stop()
	for {
		s.noteLead(rules, time.Now())
		select {
		case <-tick.C:
		case <-s.fitness:
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Store) noteLead(rules rules, now time.Time) {
	was := s.lead.Load()
	is := rules.next(*was, now, MemberID(s.etcd.Leader()), MemberID(s.etcd.MemberID()), s.rivals(), s.Unreadable() == nil, *s.confirmed.Load())
	if is.leads == was.leads && is.rivals == was.rivals && is.leader == was.leader && is.since.Equal(was.since) {
		return
	}
	if is.leads != was.leads {
		is.changed = make(chan struct{})
	}
	if is.leader != was.leader {
		is.era, is.end = context.WithCancel(context.Background())
		if was.end != nil {
			time.AfterFunc(rules.election, was.end)
		}
		if s.peers != nil {
			s.log.Info("leader of the servers has changed", "leader", is.leader.String(), "was", was.leader.String())
		}
	}
	s.lead.Store(&is)
	if is.leads != was.leads {
		close(was.changed)
	}
}

// confirmLead asks the majority whether this member still leads, again and
// again while it does, until ctx is done.
func (s *Store) confirmLead(ctx context.Context) error {
	rules := s.cfg.rules()
	tick := time.NewTicker(rules.election / 2)
	defer tick.Stop()
	for {
		if l := s.lead.Load(); l.leader == MemberID(s.etcd.MemberID()) {
			began := time.Now()
			once, cancel := context.WithTimeout(ctx, rules.lease())
			if s.readIndex(once, l.era) == nil && s.lead.Load().era == l.era {
				s.confirmed.Store(&began)
			}
			cancel()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// rivals says whether a member other than this one may lead.
func (s *Store) rivals() bool {
	for _, m := range s.etcd.Cluster().Members() {
		if !m.IsLearner && m.ID != s.etcd.MemberID() {
			return true
		}
	}
	return false
}

// unlead ends leading, with the store.
func (s *Store) unlead() {
	was := s.lead.Load()
	is := *was
	is.leads, is.changed = false, make(chan struct{})
	s.lead.Store(&is)
	close(was.changed)
	if was.end != nil {
		was.end()
	}
}

// Lead says whether this server leads, and returns a channel that is closed when
// that changes. Alone it leads as soon as it is ready.
//
// Of several servers at most one leads. It is the leader of etcd, so that what
// it writes takes the shortest way. Who has lost the majority knows within two
// election timeouts (1.2 s), and the next one begins after that. A server
// that cannot read all values never leads.
func (s *Store) Lead() (leads bool, changed <-chan struct{}) {
	l := s.lead.Load()
	return l.leads, l.changed
}

// IsLeader says whether this server leads now.
func (s *Store) IsLeader() bool {
	l := s.lead.Load()
	return l.leads && (!l.rivals || time.Since(*s.confirmed.Load()) < s.cfg.rules().lease())
}

// WhileLeading calls fn whenever this server begins to lead, with a context that
// is done when it no longer does, until ctx is done or fn fails. fn must return
// soon after its context is done.
func (s *Store) WhileLeading(ctx context.Context, fn func(context.Context) error) error {
	for {
		leads, changed := s.Lead()
		if leads {
			if err := leadOnce(ctx, changed, fn); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-s.done:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func leadOnce(ctx context.Context, changed <-chan struct{}, fn func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}()
	err := fn(ctx)
	if ctx.Err() != nil {
		return nil // whatever it says: it was ended
	}
	return err
}
