package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// etcdServer is the single member of etcd in this process.
type etcdServer struct {
	server *etcdserver.EtcdServer
	fatal  <-chan string
	broken bool
	lock   *os.File // of the directory
}

// openEtcd starts etcd without any listener and waits until it leads.
func openEtcd(ctx context.Context, cfg Config) (*etcdServer, error) {
	if cfg.Dir == "" {
		return nil, fmt.Errorf("no directory given")
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
	e, err := startEtcd(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	e.lock = lock
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

func startEtcd(ctx context.Context, cfg Config) (*etcdServer, error) {
	log, fatal := zapBridge(cfg.Log)
	sc, err := serverConfig(cfg)
	if err != nil {
		return nil, err
	}
	sc.Logger = log
	server, err := newServer(sc)
	if err != nil {
		return nil, err
	}
	server.Start()
	e := &etcdServer{server: server, fatal: fatal}
	select {
	case <-server.ReadyNotify():
		return e, nil
	case msg := <-fatal:
		return nil, fmt.Errorf("etcd stopped: %s", msg)
	case <-server.StopNotify():
		return nil, fmt.Errorf("etcd stopped while it started")
	case <-ctx.Done():
		e.close()
		return nil, ctx.Err()
	}
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

// serverConfig is etcd's own default where nothing is said here.
func serverConfig(cfg Config) (config.ServerConfig, error) {
	def := embed.NewConfig()
	// The member needs a peer URL to be one; nobody listens on it.
	peers, err := types.NewURLs([]string{"http://127.0.0.1:2380"})
	if err != nil {
		return config.ServerConfig{}, err
	}
	return config.ServerConfig{
		Name: "writ", DataDir: cfg.Dir, PeerURLs: peers, ClientURLs: peers,
		InitialPeerURLsMap: types.URLsMap{"writ": peers}, InitialClusterToken: "writ", NewCluster: true,

		TickMs: uint(max(cfg.Tick/time.Millisecond, 1)), ElectionTicks: 2,
		InitialElectionTickAdvance: true, PreVote: true, StrictReconfigCheck: true,

		// Entries since the last snapshot stay in memory and are replayed at
		// start: few of them.
		SnapshotCount: 1000, SnapshotCatchUpEntries: 500,
		MaxSnapFiles: def.MaxSnapFiles, MaxWALFiles: def.MaxWalFiles,

		// The store's own limits come first and give better errors.
		MaxRequestBytes: uint(cfg.MaxTxnBytes + cfg.MaxTxnBytes/4 + 1<<20), MaxTxnOps: uint(cfg.MaxTxnWrites),
		QuotaBackendBytes: -1,

		BackendBatchLimit: def.BackendBatchLimit, BackendBatchInterval: def.BackendBatchInterval,
		BackendFreelistType:               "map",
		BootstrapDefragThresholdMegabytes: 100,
		CompactionBatchLimit:              10000, CompactionSleepInterval: def.CompactionSleepInterval,

		AuthToken: "simple", BcryptCost: 4, TokenTTL: 300,
		WatchProgressNotifyInterval: 10 * time.Minute, DowngradeCheckTime: def.DowngradeCheckTime,
		WarningApplyDuration: time.Second, WarningUnaryRequestDuration: 2 * time.Second,
		MaxLearners:       def.MaxLearners,
		ServerFeatureGate: def.ServerFeatureGate, V2Deprecation: def.V2DeprecationEffective(),
		Metrics: "basic",
	}, nil
}

// wait returns when ctx is done or etcd has failed.
func (e *etcdServer) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case msg := <-e.fatal:
		e.broken = true
		return fmt.Errorf("etcd stopped: %s", msg)
	case <-e.server.StopNotify():
		return fmt.Errorf("etcd stopped by itself")
	}
}

// close stops etcd. A member that has failed cannot be stopped in order; its
// data is as after a crash, which etcd recovers from.
func (e *etcdServer) close() {
	if !e.broken {
		e.server.Stop()
	}
	if e.lock != nil {
		_ = e.lock.Close() // read only: nothing can be lost
	}
}
