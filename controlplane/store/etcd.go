package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// etcdServer is the member of etcd in this process.
type etcdServer struct {
	server *etcdserver.EtcdServer
	log    *etcdLog
	broken bool
	lock   *os.File // of the directory
	peers  *peers   // nil when alone
}

// openEtcd starts etcd and waits until it is in step with its leader. Alone it
// has no listener, and leads. own is what this member answers to the others
// besides, by path.
func openEtcd(ctx context.Context, cfg Config, own map[string]http.HandlerFunc) (*etcdServer, error) {
	if cfg.Dir == "" {
		return nil, fmt.Errorf("no directory given")
	}
	if cfg.Members != nil {
		if err := cfg.Members.check(); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(cfg.Dir, 0o700); err != nil { // it holds every Secret
		return nil, err
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	e := &etcdServer{lock: lock, log: newEtcdLog(cfg.Log)}
	if err := e.start(ctx, cfg, own); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// lockDir keeps a second process from waiting for ever for the data of the
// first. The kernel lets go of it when this process ends, however it does.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another process uses it: %w", err), f.Close())
	}
	return f, nil
}

func (e *etcdServer) start(ctx context.Context, cfg Config, own map[string]http.HandlerFunc) error {
	sc, err := serverConfig(cfg)
	if err != nil {
		return err
	}
	sc.Logger = e.log.zap()
	if cfg.Members == nil {
		if err := discardUnbegun(sc); err != nil {
			return err
		}
	} else {
		// Before etcd, which asks the others, so that nobody waits in vain.
		if e.peers, err = listenPeers(cfg.Members, sc.PeerDialTimeout()); err != nil {
			return err
		}
		if err := memberConfig(ctx, &sc, cfg.Members, e.peers.client); err != nil {
			return err
		}
	}
	rec, err := readReset(cfg.Dir)
	if err != nil {
		return err
	}
	server, err := newServer(sc)
	if err != nil {
		return err
	}
	e.server = server
	server.Start()
	if cfg.Members == nil {
		return e.await(ctx, e.awaitLead)
	}
	e.peers.serve(sc.Logger, server, own, rec.Clusters)
	return e.await(ctx, func(ctx context.Context) error {
		if err := e.awaitStep(ctx); err != nil {
			return err
		}
		return e.moveTo(ctx, cfg.Members.URL)
	})
}

// newServer keeps etcd's panics on damaged data from looking like ours.
func newServer(sc config.ServerConfig) (s *etcdserver.EtcdServer, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("etcd cannot read its data: %v", p)
		}
	}()
	return etcdserver.NewServer(sc)
}

// awaitLead waits until a store that is alone leads itself.
func (e *etcdServer) awaitLead(ctx context.Context) error {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-e.server.ReadyNotify():
			return e.alone()
		case <-look.C: // it may wait for ever for the votes of the others
			if err := e.alone(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (e *etcdServer) alone() error {
	if n := len(e.server.Cluster().Members()); n > 1 {
		return fmt.Errorf("the data is of one of %d servers: it cannot be served alone", n)
	}
	return nil
}

// awaitStep waits until a member of several has read what is newest. etcd says
// that it is ready when the name of the member is known to all, which takes
// seconds longer for one that joins.
func (e *etcdServer) awaitStep(ctx context.Context) error {
	for e.readIndex(ctx) != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// await calls ready, and fails when etcd does before it returns.
func (e *etcdServer) await(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- e.wait(ctx)
	}()
	err := ready(ctx)
	cancel()
	if failed := <-ended; failed != nil {
		return failed
	}
	return err
}

// readIndex returns when this member has applied all that was committed when it
// was called.
func (e *etcdServer) readIndex(ctx context.Context) error {
	_, err := e.server.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
	return err
}

// wait returns when ctx is done or etcd has failed.
func (e *etcdServer) wait(ctx context.Context) error {
	var peersFailed chan error
	if e.peers != nil {
		peersFailed = e.peers.failed
	}
	select {
	case <-ctx.Done():
		return nil
	case msg := <-e.log.fatal:
		e.broken = true
		return fmt.Errorf("etcd stopped: %s", msg)
	case err := <-peersFailed:
		return fmt.Errorf("listen to the other members: %w", err)
	case <-e.server.StopNotify():
		if e.log.removed.Load() {
			return ErrRemoved
		}
		return fmt.Errorf("etcd stopped by itself")
	}
}

// close stops etcd. A member that has failed cannot be stopped in order; its
// data is as after a crash, which etcd recovers from.
func (e *etcdServer) close() {
	if e.server != nil && !e.broken {
		e.server.Stop() // and gives the lead to another
	}
	if e.peers != nil {
		e.peers.close()
	}
	if e.lock != nil {
		_ = e.lock.Close() // read only: nothing can be lost
	}
}
