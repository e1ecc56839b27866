package settings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/pace"
	"github.com/writ-os/writ/nodeagent/settings/disk"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Intervals.
const (
	look       = time.Minute // at what was set
	retryFirst = 5 * time.Second
	retryLast  = 5 * time.Minute
	// maxTurns is how often things are changed without a pause.
	maxTurns = 4
)

// Config is everything that Settings need from outside.
type Config struct {
	NodeName string
	Client   client.Interface
	// Cache holds at least the NodePools and the Node of this machine.
	Cache client.Cache
	// Dir keeps the record.
	Dir string
	// Sysctls is the directory of the kernel's parameters. Default: /proc/sys.
	Sysctls string
	// Run is where the system keeps what ends with it. Default: /run.
	Run string
	// Disks is the machine's. Default: what is in /sys, mounted below /var/mnt.
	Disks disk.Machine
	// Boot names this start of the machine. Default: what the kernel says.
	Boot string
	// Restart starts a unit of systemd again. Default: systemctl does.
	Restart func(ctx context.Context, unit string) error
	Log     *slog.Logger

	// step is called before every write, which an error prevents. For tests.
	step func() error
	// asked is told when a turn wants the next one, and says when it shall want
	// it. For tests.
	asked func(wait time.Duration) time.Duration
}

// Settings keep this node's settings.
type Settings struct {
	cfg     Config
	log     *slog.Logger
	sysctls sysctls
	mirrors atomic.Pointer[map[string][]string]
	known   atomic.Bool // what the server says
	// endpoints are by host.
	endpoints atomic.Pointer[map[string]declared]
	secrets   secrets
	pace      pace.Loop

	// The rest is the loop's.
	record  Record
	unsaved bool // it is not on the disk
	told    condition
	failed  []string // of the last try
	tries   int
	next    time.Time // of a try, after one that failed
}

// New returns settings; it starts nothing.
func New(cfg Config) *Settings {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Sysctls == "" {
		cfg.Sysctls = "/proc/sys"
	}
	if cfg.Run == "" {
		cfg.Run = "/run"
	}
	if cfg.Disks.Sys == "" {
		cfg.Disks = disk.Machine{Sys: "/sys", Dev: "/dev", Mnt: "/var/mnt"}
	}
	if cfg.Restart == nil {
		cfg.Restart = restart
	}
	if cfg.asked == nil {
		cfg.asked = func(wait time.Duration) time.Duration { return wait }
	}
	if cfg.step == nil {
		cfg.step = func() error { return nil }
	}
	return &Settings{cfg: cfg, log: cfg.Log, sysctls: sysctls{cfg.Sysctls}, secrets: secrets{client: cfg.Client}}
}

// Load reads what was in force when the agent ended, so that the first pull asks
// the mirrors and the first pod finds its disks. Run does it where it was not
// done.
func (s *Settings) Load() error {
	if s.cfg.Boot == "" {
		b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return fmt.Errorf("read boot ID: %w", err)
		}
		s.cfg.Boot = strings.TrimSpace(string(b))
	}
	var err error
	if s.record, err = readRecord(s.cfg.Dir, s.cfg.Boot); err != nil {
		// Only the sysctls to give back are lost; all else is read from the cluster again.
		s.log.Warn("the values of sysctls from before are not known", "err", err)
	}
	mirrors := s.record.Wanted.Mirrors
	s.mirrors.Store(&mirrors)
	s.declareEndpoints(s.record.Wanted.Hosts)
	s.mountDisks()
	return nil
}

// Mirrors are the URLs that are asked for the images of a registry before the
// registry itself. It may be called by several goroutines.
func (s *Settings) Mirrors(registry string) []string {
	if m := s.mirrors.Load(); m != nil {
		return (*m)[registry]
	}
	return nil
}

// Run keeps the settings until ctx ends. They stay as they are then.
func (s *Settings) Run(ctx context.Context) error {
	if s.cfg.Dir == "" || s.cfg.NodeName == "" {
		return errors.New("run settings: a directory and the name of the node are needed")
	}
	if s.mirrors.Load() == nil {
		if err := s.Load(); err != nil {
			return err
		}
	}
	wake := make(chan struct{}, 1)
	ring := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	s.secrets.ring = ring
	defer s.secrets.alive.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	followed := make(chan error, 1)
	go func() { followed <- s.follow(ctx, ring) }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for byClock := false; ; {
		select {
		case err := <-followed:
			return err // nil when ctx has ended
		case <-wake:
			byClock = false
		case <-timer.C:
			byClock = true
		}
		timer.Stop()
		if !s.rest(ctx) {
			return nil
		}
		wait := s.cfg.asked(s.turn(ctx))
		if wait = s.pause(wait, !byClock); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// rest keeps a loop from going on whose turns wake it again and again; false when
// ctx has ended.
func (s *Settings) rest(ctx context.Context) bool {
	rest := s.pace.Begin(time.Now())
	if rest == 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(rest):
		return true
	}
}

// pause is how long the loop sleeps that wants to sleep for a time, 0 until
// something is heard. One that wants to wake again and again without an event is
// held back.
func (s *Settings) pause(wait time.Duration, event bool) time.Duration {
	now := time.Now()
	want := now.Add(wait)
	if wait <= 0 {
		want = time.Time{}
	}
	at, held := s.pace.End(now, want, event)
	if at.IsZero() {
		return 0
	}
	if held {
		s.log.Debug("settings are looked at too often", "wanted", wait, "wait", at.Sub(now))
	}
	return at.Sub(now)
}

// Held is how often the loop was held back that woke itself again and again: 0
// on a sound node. It may be called by several goroutines.
func (s *Settings) Held() uint64 { return s.pace.Held() }

// follow wakes the loop when the Node or a pool changes, until ctx ends.
func (s *Settings) follow(ctx context.Context, ring func()) error {
	err := s.cfg.Cache.Subscribe(ctx, schema.ResourceFor[*corev1.Node](), func(e client.Event) {
		if e.Object != nil && e.Object.GetName() == s.cfg.NodeName {
			ring()
		}
	})
	if err == nil {
		err = s.cfg.Cache.Subscribe(ctx, schema.ResourceFor[*v1alpha1.NodePool](), func(client.Event) { ring() })
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("follow node pools: %w", err)
	}
	s.known.Store(true) // a subscription begins when all was read
	ring()
	<-ctx.Done()
	return nil
}

// turn brings the node to what is wanted, and says when to look again; 0 is when
// something is heard.
func (s *Settings) turn(ctx context.Context) time.Duration {
	node, ok := client.Cached[*corev1.Node](s.cfg.Cache, schema.Key{Name: s.cfg.NodeName})
	want := s.record.Wanted
	if ok = ok && s.known.Load(); ok {
		want = Want(v1alpha1.NewMembership(client.CachedList[*v1alpha1.NodePool](s.cfg.Cache, "")).PoolOf(node.Labels))
	}
	s.secrets.want(ctx, want.Hosts)
	unasked := s.declareEndpoints(want.Hosts)
	changed := !reflect.DeepEqual(want, s.record.Wanted)
	if changed {
		s.tries, s.next = 0, time.Time{}
		s.mirrors.Store(&want.Mirrors)
	}
	wait := time.Until(s.next)
	if wait <= 0 {
		wait = s.try(ctx, want)
	}
	if ok {
		if err := s.tell(ctx, node, conditionOf(want, slices.Concat(s.failed, unasked))); err != nil {
			s.log.Warn("settings not reported", "err", err)
			return retryFirst
		}
	}
	return wait
}

// try applies what is wanted, and says when to look again.
func (s *Settings) try(ctx context.Context, want Wanted) time.Duration {
	s.failed = s.apply(ctx, want)
	if len(s.failed) > 0 {
		wait := min(retryFirst<<min(s.tries, 10), retryLast)
		s.tries++
		s.next = time.Now().Add(wait)
		return wait
	}
	s.tries, s.next = 0, time.Time{}
	if want.Nothing() {
		return 0
	}
	return look
}

// apply reads, decides and acts until there is nothing to do, and says what
// could not be done.
func (s *Settings) apply(ctx context.Context, want Wanted) []string {
	if s.unsaved || !reflect.DeepEqual(want, s.record.Wanted) {
		s.record.Wanted = want
		if err := s.keep(); err != nil {
			return []string{err.Error()}
		}
	}
	return slices.Concat(s.applyValues(ctx, want), s.applyDisks(ctx, want.Disks))
}

// applyValues is apply of sysctls and time servers.
func (s *Settings) applyValues(ctx context.Context, want Wanted) []string {
	for range maxTurns {
		if want.Nothing() && len(s.record.Sysctls) == 0 && s.record.Servers == "" {
			return nil
		}
		o, err := s.observe(want)
		if err != nil {
			return []string{err.Error()}
		}
		p := Decide(o)
		if len(p.Changes) == 0 {
			return p.Problems
		}
		if failed := s.act(ctx, o, p); len(failed) > 0 {
			return slices.Concat(p.Problems, failed)
		}
	}
	return []string{"settings do not stay as they are set: something else on this node changes them"}
}

func (s *Settings) observe(want Wanted) (Observed, error) {
	o := Observed{Wanted: want, Record: s.record, Sysctls: map[string]Reading{}}
	for at := range want.Sysctls {
		o.read(s.sysctls, at)
	}
	for at := range s.record.Sysctls {
		o.read(s.sysctls, at)
	}
	var err error
	if len(want.TimeServers) > 0 || s.record.Servers != "" {
		o.Time, err = readTime(s.cfg.Run)
	}
	return o, err
}

func (o *Observed) read(from sysctls, at string) {
	for _, p := range []string{at, twins[at]} {
		if _, have := o.Sysctls[p]; p != "" && !have {
			o.Sysctls[p] = from.read(p)
		}
	}
}
