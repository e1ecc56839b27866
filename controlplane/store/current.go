package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/raft/v3"

	"github.com/writ-os/writ/schema"
)

// Current returns when the copy of this server holds all that any server had
// stored when it was called: what is read after it is the most recent state.
//
// Alone it costs nothing: nobody else writes. A server that cannot reach the
// majority returns ErrUnavailable, after six election timeouts at the latest,
// and at once when there has been no leader for three.
func (s *Store) Current(ctx context.Context) error {
	if s.cfg.Members == nil {
		return nil
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, 2*s.cfg.rules().patience())
	defer cancel()
	err := s.current(within)
	switch {
	case err == nil, errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed):
		return err
	case ctx.Err() == nil && within.Err() != nil:
		return fmt.Errorf("%w: this server cannot learn from the others what is newest", ErrUnavailable)
	}
	return fmt.Errorf("read the newest state: %w", err)
}

func (s *Store) current(ctx context.Context) error {
	for {
		l, err := s.awaitLeader(ctx)
		if err != nil {
			return err
		}
		switch err := s.readIndex(ctx, l.era); {
		case err == nil:
			return s.WaitFor(ctx, schema.NewResourceVersion(s.revision(), 0))
		case errors.Is(err, etcderrors.ErrStopped), errors.Is(err, raft.ErrStopped):
			return ErrClosed
		}
		// The leader has changed, or does not answer: there will be another, or
		// none for too long.
		if err := s.pause(ctx); err != nil {
			return err
		}
	}
}

// readIndex is etcd's read index, until an era ends.
func (s *Store) readIndex(ctx, era context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(era, cancel)()
	_, err := s.etcd.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
	return err
}

// revision is the newest that etcd has applied here.
func (s *Store) revision() int64 {
	tx := s.etcd.KV().Read(mvcc.SharedBufReadTxMode, traceutil.TODO()) // no copy of etcd's buffer
	defer tx.End()
	return tx.Rev()
}

// awaitReady waits until Run has opened the store.
func (s *Store) awaitReady(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-s.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitLeader returns when there is a leader. It refuses when there has been
// none for too long: then most of the servers are away.
func (s *Store) awaitLeader(ctx context.Context) (*lead, error) {
	for {
		l := s.lead.Load()
		if l.leader != 0 {
			return l, nil
		}
		if gone := time.Since(l.since); gone > s.cfg.rules().patience() {
			return nil, fmt.Errorf("%w: for %v the servers have had no leader that this one can reach", ErrUnavailable, gone.Round(time.Second))
		}
		if err := s.pause(ctx); err != nil {
			return nil, err
		}
	}
}

func (s *Store) pause(ctx context.Context) error {
	select {
	case <-time.After(s.cfg.Tick):
		return nil
	case <-s.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// propose sends a transaction through etcd: straight to the log when this member
// leads, and to the leader otherwise. It returns when etcd has applied it here.
func (s *Store) propose(ctx context.Context, req *pb.TxnRequest) (*pb.TxnResponse, error) {
	if s.cfg.Members == nil {
		return s.etcd.Txn(ctx, req)
	}
	for began := time.Now(); ; {
		l, err := s.awaitLeader(ctx)
		if err != nil {
			return nil, err
		}
		resp, err := s.proposeIn(ctx, l.era, req)
		if !errors.Is(err, raft.ErrProposalDropped) {
			return resp, err
		}
		// The lead is being handed over, and nobody has taken it.
		if time.Since(began) > s.cfg.rules().patience() {
			return nil, fmt.Errorf("%w: the leader takes no writes", ErrUnavailable)
		}
		if err := s.pause(ctx); err != nil {
			return nil, err
		}
	}
}

func (s *Store) proposeIn(ctx, era context.Context, req *pb.TxnRequest) (*pb.TxnResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(era, cancel)()
	return s.etcd.Txn(ctx, req)
}

// serveInStep tells the leader whether this member is in step: it has, just now.
func (s *Store) serveInStep(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.ready:
	default:
		http.Error(w, "the copy is not loaded", http.StatusServiceUnavailable)
		return
	}
	if err := s.Current(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
