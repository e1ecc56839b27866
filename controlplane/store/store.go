package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver"
	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/schema"
)

// The limits of one Txn. etcd checks the size of a request only, and its log
// takes records of any size; the limits keep one commit from stalling all
// others and stay far from etcd's request timeout of five seconds.
const (
	defaultMaxTxnBytes  = 64 << 20
	defaultMaxTxnWrites = 1 << 16
)

// Config is what a Store needs from outside. Zero values mean the default.
type Config struct {
	// Dir holds etcd's data. It is created when missing.
	Dir string
	Log *slog.Logger
	// Resources to keep, by any of their versions. Default: all of the resource
	// table. Add keeps more.
	Resources []*schema.Resource
	// Sealer encrypts values at rest. Default: they are as Kubernetes encodes
	// them.
	Sealer Sealer
	// Metrics to count into. Default: counted and not shown.
	Metrics *Metrics

	// Members makes the store one of several servers. Default: it is alone.
	Members *Members

	// Tick of raft, of which an election takes two, and among members ten.
	// Default 20 ms: a single member has nobody to compete with, and the tick is
	// idle CPU. Among members 60 ms, the same for all of them: ten are far more than
	// a heartbeat takes between machines, and than a disk takes that is well.
	Tick time.Duration
	// CompactEvery is how long history is kept, where there is not much of it.
	// Default 5 m, as upstream.
	CompactEvery time.Duration
	// QuotaBytes is how much live data etcd may hold. Default 8 GiB.
	QuotaBytes int64
	// ReserveBytes of the disk are left free: writes are refused before the
	// disk is full, because etcd cannot survive that. Default 256 MiB.
	ReserveBytes int64
	// MaxTxnBytes and MaxTxnWrites bound one Txn. Default 64 MiB, 65,536.
	MaxTxnBytes, MaxTxnWrites int
	// EventLog is how many events of each resource are kept for watches that
	// resume, and EventAge for how long at most. Default 4,096, and 75 s as upstream:
	// they are most of what a busy server holds in memory.
	EventLog int
	EventAge time.Duration
	// EventTTL is how long an Event is kept after it was seen last; 0 keeps it.
	EventTTL time.Duration
	// MaxEvents is how many Events are kept; the oldest go first, each namespace
	// has the same share. Default 5,000, some 10 MB, or two a Pod where there are
	// more: what they take grows with the cluster, not with what happens to it.
	MaxEvents int

	expireEvery time.Duration // in tests
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	if c.Members != nil {
		def(&c.Tick, 60*time.Millisecond)
	}
	def(&c.Tick, 20*time.Millisecond)
	def(&c.CompactEvery, 5*time.Minute)
	def(&c.EventAge, 75*time.Second)
	num(&c.MaxTxnBytes, defaultMaxTxnBytes)
	num(&c.MaxTxnWrites, defaultMaxTxnWrites)
	num(&c.EventLog, 4096)
	def(&c.expireEvery, expireEvery)
	if c.QuotaBytes == 0 {
		c.QuotaBytes = 8 << 30
	}
	if c.ReserveBytes == 0 {
		c.ReserveBytes = 256 << 20
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Resources == nil {
		c.Resources = schema.Resources
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics()
	}
	if c.Sealer == nil {
		c.Sealer = plain{}
	}
	return c
}

// Store is revisioned objects over etcd, with one copy of them in memory.
type Store struct {
	cfg   Config
	log   *slog.Logger
	met   *Metrics
	ready chan struct{}
	done  chan struct{} // closed when Run has returned

	state atomic.Pointer[state]
	keys  atomic.Pointer[keyspace] // replaced by the applier only
	// records are replaced by the applier only, before the state that has them.
	records atomic.Pointer[records]
	room    roomGuard

	changes  chan *change // of the keyspace, asked for
	prepared chan *change // what has been read ahead for

	// Touched by the applier only. strays is the version of the last change
	// below each prefix that no resource is kept under, as far as the history
	// goes, which begins after floor.
	strays map[string]schema.ResourceVersion
	floor  schema.ResourceVersion

	etcd  *etcdserver.EtcdServer // set before ready is closed
	peers *peers                 // the same; nil when alone
	lead  atomic.Pointer[lead]
	// confirmed is when this member last asked the majority whether it leads,
	// and it did.
	confirmed atomic.Pointer[time.Time]

	alterMu sync.Mutex // for changes of the members

	// crowded is why all servers refuse puts now.
	crowded atomic.Pointer[string]

	lostValues atomic.Int64  // that cannot be read, as of the state
	fitness    chan struct{} // wakes who decides whether this member may lead
	rereadNow  chan struct{}
	resealNow  chan struct{}
	regained   chan []found

	mu      sync.Mutex
	pending map[string][]*pendingWrite // by etcd key: writes on their way
}

// Errors of a store.
var (
	// ErrExpired ends a watch whose events are no longer kept: list again.
	ErrExpired = errors.New("resource version is too old")
	// ErrClosed is returned by calls after Run has ended.
	ErrClosed = errors.New("store is closed")
)

// New returns a store; it starts nothing.
func New(cfg Config) *Store {
	cfg = cfg.withDefaults()
	s := &Store{
		cfg: cfg, log: cfg.Log, met: cfg.Metrics,
		ready:     make(chan struct{}),
		done:      make(chan struct{}),
		changes:   make(chan *change),
		prepared:  make(chan *change),
		fitness:   make(chan struct{}, 1),
		rereadNow: make(chan struct{}, 1),
		resealNow: make(chan struct{}, 1),
		regained:  make(chan []found),
		strays:    map[string]schema.ResourceVersion{},
		pending:   map[string][]*pendingWrite{},
		room:      roomGuard{dir: cfg.Dir, reserve: cfg.ReserveBytes, quota: cfg.QuotaBytes},
	}
	s.keys.Store(newKeyspace(cfg.Resources, cfg.EventLog))
	s.records.Store(noRecords())
	s.state.Store(s.freeze(0, nil))
	s.lead.Store(&lead{changed: make(chan struct{})})
	s.confirmed.Store(&time.Time{})
	return s
}

// Alone says that nobody else keeps what this store keeps.
func (s *Store) Alone() bool { return s.cfg.Members == nil }

// Ready is closed when the copy is loaded and writes are accepted.
func (s *Store) Ready() <-chan struct{} { return s.ready }

// Run opens etcd, loads the copy and keeps it up to date until ctx is done. It
// returns an error when etcd cannot go on; the process should end then.
func (s *Store) Run(ctx context.Context) error {
	defer s.close()
	began := time.Now()
	e, err := openEtcd(ctx, s.cfg, map[string]http.HandlerFunc{inStepPath: s.serveInStep, fitPath: s.serveFit, roomPath: s.serveRoom})
	if err != nil {
		return fmt.Errorf("open etcd in %s: %w", s.cfg.Dir, err)
	}
	defer e.close()
	defer s.unlead() // before another can lead
	s.etcd, s.peers = e.server, e.peers
	opened := time.Now()
	if m := s.cfg.Members; m != nil && !m.unchecked {
		if err := s.compare(ctx); err != nil {
			return err
		}
	}

	rev, err := s.load()
	if err != nil {
		return fmt.Errorf("load objects: %w", err)
	}
	watch := e.server.KV().NewWatchStream()
	defer watch.Close()
	if err := s.watchFrom(ctx, watch, rev+1); err != nil {
		return err
	}
	s.log.Info("store is ready", "objects", s.objects(), "resourceVersion", s.Version().String(),
		"etcd", opened.Sub(began), "load", time.Since(opened))
	s.noteLead(s.cfg.rules(), time.Now())
	close(s.ready)

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.follow(ctx, watch) })
	if e.peers != nil {
		g.Go(func() error { return s.handOverLoop(ctx) })
		g.Go(func() error { return s.watchAlarms(ctx) })
		g.Go(func() error { return s.confirmLead(ctx) })
		g.Go(func() error { return s.promoteLoop(ctx) })
	}
	g.Go(func() error { return s.followLead(ctx) })
	g.Go(func() error { return s.WhileLeading(ctx, s.expireLoop) })
	g.Go(func() error { return s.rereadLoop(ctx) })
	g.Go(func() error { return s.roomLoop(ctx) })
	g.Go(func() error { return s.WhileLeading(ctx, s.reseal) })
	g.Go(func() error { return s.prepareChanges(ctx) })
	g.Go(func() error { return s.compactLoop(ctx) })
	g.Go(func() error { return e.wait(ctx) })
	return g.Wait()
}

// close wakes everybody who waits.
func (s *Store) close() {
	close(s.done)
	for _, sl := range s.keys.Load().slots {
		if sl != nil {
			sl.log.close(ErrClosed)
		}
	}
}

// Version is the version of the newest state of the copy.
func (s *Store) Version() schema.ResourceVersion { return s.state.Load().version }

// WaitFor returns when the copy has reached a version.
func (s *Store) WaitFor(ctx context.Context, v schema.ResourceVersion) error {
	for {
		st := s.state.Load()
		if st.version >= v {
			return nil
		}
		select {
		case <-st.next:
		case <-s.done:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Store) objects() int {
	n := 0
	for _, sl := range s.keys.Load().slots {
		n += sl.table.items.Len()
	}
	return n
}
