package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/pkg/v3/featuregate"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/features"
	etcdschema "go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// ErrCorrupt ends the store of a member whose data is not what the others have
// at the same revision: a disk has changed it.
var ErrCorrupt = errors.New("the data of this server is damaged")

const (
	// What the members have made of each compaction is compared within this, and
	// all that they hold now and then.
	compactHashEvery = time.Minute
	hashEvery        = 4 * time.Hour
	// alarmFor is how long writes are refused after data was found damaged: the
	// member that has it ends within, and serves it to nobody.
	alarmFor = 15 * time.Second
)

// compared is what the other members say of a revision of this one.
type compared struct{ same, differ []string }

// verdict is an error when this member is not of the majority of those that
// could be compared. Of two that differ nobody knows which is right: the one that
// starts does not.
func (c compared) verdict() error {
	if len(c.differ) == 0 || len(c.differ) <= len(c.same) {
		return nil
	}
	return fmt.Errorf("%w: it differs at the same revision from that of %s, though nothing of it was changed by writ. Remove this server with "+
		"'writ member remove' on another one, move its data directory away, and have it join again; look after its disk",
		ErrCorrupt, strings.Join(c.differ, ", "))
}

// compare holds what this member has against what the others have, before
// anything is read of it.
func (s *Store) compare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for range 5 { // a compaction may run on one and not yet on another
		c, again := s.compareOnce(ctx)
		if !again {
			if len(c.differ) > 0 {
				s.log.Error("the data of servers differs at the same revision", "like this one", c.same, "unlike", c.differ)
			}
			return c.verdict()
		}
		if s.pause(ctx) != nil {
			break
		}
	}
	s.log.Warn("the data of this server was not compared with that of others: they compact it now")
	return nil
}

func (s *Store) compareOnce(ctx context.Context) (c compared, again bool) {
	own, _, err := s.etcd.KV().HashStorage().HashByRev(0)
	if err != nil {
		return c, true
	}
	type answer struct {
		name string
		resp *pb.HashKVResponse
	}
	answers := make(chan answer)
	g := errgroup.Group{}
	for _, m := range s.etcd.Cluster().Members() {
		if m.ID == s.etcd.MemberID() || m.IsLearner || len(m.PeerURLs) == 0 {
			continue
		}
		g.Go(func() error {
			resp, err := etcdserver.HashByRev(ctx, types.ID(s.etcd.Cluster().ID()), &http.Client{Transport: s.peers.client}, m.PeerURLs[0], own.Revision)
			if err == nil { // one that is away, or behind, is no witness
				answers <- answer{m.Name, resp}
			}
			return nil
		})
	}
	go func() {
		_ = g.Wait() // none fails
		close(answers)
	}()
	for a := range answers {
		switch {
		case a.resp.CompactRevision != own.CompactRevision:
			again = true
		case a.resp.Hash == own.Hash:
			c.same = append(c.same, a.name)
		default:
			c.differ = append(c.differ, a.name)
		}
	}
	return c, again && len(c.same)+len(c.differ) == 0
}

// watchAlarms ends this member when the others have found its data damaged, and
// takes the alarm back when the damaged one is gone: etcd refuses all writes until
// then.
func (s *Store) watchAlarms(ctx context.Context) error {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	since := map[uint64]time.Time{}
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
		for _, a := range s.alarms() {
			if a.Alarm != pb.AlarmType_CORRUPT {
				continue
			}
			if a.MemberID == uint64(s.etcd.MemberID()) {
				return fmt.Errorf("%w: the others have found that it differs from theirs. Remove this server with 'writ member remove' on another one, "+
					"move its data directory away, and have it join again; look after its disk", ErrCorrupt)
			}
			if since[a.MemberID].IsZero() {
				since[a.MemberID] = time.Now()
				s.log.Error("the data of a server is damaged: it ends, and writes are refused until then", "member", MemberID(a.MemberID).String())
			}
			if a.MemberID == 0 && len(s.etcd.Cluster().Members()) > 1 {
				continue // nobody knows which of them: one has to be removed
			}
			if time.Since(since[a.MemberID]) > alarmFor && s.etcd.Leader() == s.etcd.MemberID() {
				s.disarm(ctx, a)
				delete(since, a.MemberID)
			}
		}
	}
}

// alarms are those that the members have raised, as the database of this one has
// them. etcd's own Alarms reads what it exchanges, without a lock, when it takes a
// snapshot over. Where it closes the database in this moment there is nothing to
// read, and the next look sees them.
func (s *Store) alarms() (all []*pb.AlarmMember) {
	defer func() {
		if recover() != nil {
			all = nil
		}
	}()
	all, err := etcdschema.NewAlarmBackend(zap.NewNop(), s.etcd.Backend()).GetAllAlarms()
	if err != nil {
		s.log.Warn("alarms of the servers cannot be read", "err", err)
	}
	return all
}

func (s *Store) disarm(ctx context.Context, a *pb.AlarmMember) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.rules().patience())
	defer cancel()
	if _, err := s.etcd.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: a.MemberID, Alarm: a.Alarm}); err != nil {
		s.log.Warn("writes are still refused for a server whose data is damaged", "member", MemberID(a.MemberID).String(), "err", err)
	}
}

// corruptionChecks are etcd's own, of members.
func corruptionChecks(gate featuregate.FeatureGate) error {
	g, ok := gate.(interface{ SetFromMap(map[string]bool) error })
	if !ok {
		return fmt.Errorf("the feature gate of etcd is a %T", gate)
	}
	return g.SetFromMap(map[string]bool{string(features.CompactHashCheck): true})
}
