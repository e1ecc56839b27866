package update

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	goruntime "runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/pace"
	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Intervals.
const (
	look         = 30 * time.Second // at the order, when nothing wakes
	healthLook   = 5 * time.Second  // at the health of a system on trial
	progressLook = 10 * time.Second // at how far a download is
	rebootWait   = 5 * time.Minute  // until a reboot that did not happen is asked for again
	retryFirst   = 5 * time.Second
	retryLast    = 5 * time.Minute

	// stageTries is how often a bundle that is good is written, before the disk
	// is taken to be bad.
	stageTries = 3
	// maxTimes is how often the same thing is done without a pause.
	maxTimes = 3
)

// Updater brings this node to what is wanted.
type Updater struct {
	cfg     Config
	log     *slog.Logger
	fetcher fetcher
	pace    pace.Loop

	// The rest is the loop's.
	record    Record
	order     Order
	job       *job
	began     time.Time
	wellSince time.Time
	// What failed last may be tried again at next.
	tries int
	next  time.Time
	said  string
	// What was done last, and how often without anything else in between.
	did   Do
	times int
}

// New returns an updater; it starts nothing.
func New(cfg Config) *Updater {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	if cfg.Arch == "" {
		cfg.Arch = goruntime.GOARCH
	}
	if b, err := os.ReadFile("/etc/machine-id"); err == nil && cfg.MachineID == "" {
		cfg.MachineID = strings.TrimSpace(string(b))
	}
	if cfg.asked == nil {
		cfg.asked = func(wait time.Duration) time.Duration { return wait }
	}
	if cfg.Settle == 0 {
		cfg.Settle = 30 * time.Second
	}
	if cfg.HealthTimeout == 0 {
		cfg.HealthTimeout = 10 * time.Minute
	}
	return &Updater{cfg: cfg, log: cfg.Log, fetcher: fetcher{dir: cfg.Dir, http: cfg.HTTP}}
}

// Run updates the node until ctx ends.
func (u *Updater) Run(ctx context.Context) error {
	if u.cfg.Healthy == nil || u.cfg.Reboot == nil || u.cfg.Dir == "" {
		return errors.New("run updater: a directory, and functions for health and reboot, are needed")
	}
	u.began = time.Now()
	var err error
	if u.record, err = readRecord(u.cfg.Dir); err != nil {
		return err
	}
	if u.cfg.Boot.IsZero() {
		if u.cfg.Boot, err = bootTime(); err != nil {
			return err
		}
	}
	wake := make(chan struct{}, 1)
	followed := make(chan error, 1)
	go func() { followed <- u.follow(ctx, wake) }()
	defer u.stop()
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
		case r := <-u.jobDone():
			u.finish(r)
			byClock = false
		}
		if !u.rest(ctx) {
			return nil
		}
		timer.Reset(u.pause(u.cfg.asked(u.turn(ctx)), !byClock))
	}
}

// rest keeps a loop from going on whose turns wake it again and again; false when
// ctx has ended.
func (u *Updater) rest(ctx context.Context) bool {
	rest := u.pace.Begin(time.Now())
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

// pause is how long the loop sleeps that wants to sleep for a time. One that wants
// to wake again and again without an event is held back.
func (u *Updater) pause(wait time.Duration, event bool) time.Duration {
	now := time.Now()
	at, held := u.pace.End(now, now.Add(wait), event)
	if held {
		u.log.Debug("the update is looked at too often", "wanted", wait, "wait", at.Sub(now))
	}
	return at.Sub(now)
}

// Held is how often the loop was held back that woke itself again and again: 0
// on a sound node. It may be called by several goroutines.
func (u *Updater) Held() uint64 { return u.pace.Held() }

// bootTime is when the machine was started.
func bootTime() (time.Time, error) {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Time{}, fmt.Errorf("read uptime: %w", err)
	}
	return time.Now().Add(-time.Duration(up.Nano())), nil
}

// follow wakes the loop when the Node changes, until ctx ends.
func (u *Updater) follow(ctx context.Context, wake chan<- struct{}) error {
	if s, ok := u.cfg.Cache.(interface {
		WaitSynced(ctx context.Context) error
	}); ok && s.WaitSynced(ctx) != nil {
		return nil
	}
	err := u.cfg.Cache.Subscribe(ctx, schema.ResourceFor[*corev1.Node](), func(e client.Event) {
		if e.Object == nil || e.Object.GetName() != u.cfg.NodeName {
			return
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if ctx.Err() != nil {
		return nil // it ended while it began
	}
	if err != nil {
		return fmt.Errorf("follow node %s: %w", u.cfg.NodeName, err)
	}
	<-ctx.Done()
	return nil
}

// turn reads, decides and acts once, and says when to do it again.
func (u *Updater) turn(ctx context.Context) time.Duration {
	node, ok := client.Cached[*corev1.Node](u.cfg.Cache, schema.Key{Name: u.cfg.NodeName})
	if !ok || !u.mine(node) {
		return look
	}
	if o := orderOf(node); o.Image != u.order.Image || o.Arguments != u.order.Arguments {
		u.order, u.tries, u.next, u.said = o, 0, time.Time{}, ""
		if u.job != nil {
			u.job.cancel()
		}
	}
	if u.job != nil {
		u.tell(ctx, node, u.job.report())
		return progressLook
	}
	o, err := u.observe(ctx, orderOf(node))
	if err != nil {
		wait := u.stumble(err)
		u.tell(ctx, node, Report{v1alpha1.UpdateMessageAnnotation: u.said})
		return wait
	}
	a := Decide(o)
	wait := time.Until(u.next)
	if a.Do != Nothing && wait > 0 {
		a.Message = u.said
	}
	u.tell(ctx, node, report(o.State, a))
	switch {
	case a.Do == Nothing && o.State.Trial():
		u.did = Nothing
		return healthLook
	case a.Do == Nothing:
		u.did = Nothing
		return look
	case wait > 0:
		return wait
	}
	if err := u.again(a.Do); err != nil {
		u.stumble(err)
	} else if err := u.act(ctx, o, a); err != nil {
		u.stumble(err)
	}
	if u.job != nil {
		return progressLook
	}
	return 0
}

// mine says whether the Node is this machine. What another machine of the same
// name is ordered, and tells, is left alone: this one would be rebooted for it.
func (u *Updater) mine(n *corev1.Node) bool {
	id := n.Status.NodeInfo.MachineID
	return id == "" || u.cfg.MachineID == "" || id == u.cfg.MachineID
}

// again refuses to do the same thing over and over: what was done, and is
// decided once more at once, has not helped.
func (u *Updater) again(do Do) error {
	if do != u.did {
		u.did, u.times = do, 0
	}
	if u.times++; u.times > maxTimes {
		u.times = 0
		return fmt.Errorf("%s has no effect", do)
	}
	return nil
}

// stumble remembers an error to be told of, and says how long to wait.
func (u *Updater) stumble(err error) time.Duration {
	wait := min(retryFirst<<min(u.tries, 10), retryLast)
	u.tries++
	u.did = Nothing
	u.said = fmt.Sprintf("%v; next try after %s", err, wait)
	// Nodes that failed together do not come again together.
	wait += rand.N(wait / 4)
	u.next = time.Now().Add(wait)
	u.log.Warn("update held up", "node", u.cfg.NodeName, "err", err, "retry", wait)
	return wait
}

// tell reports to the server. Where that fails the next turn does it.
func (u *Updater) tell(ctx context.Context, n *corev1.Node, r Report) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := tell(ctx, u.cfg.Client, n, r); err != nil && ctx.Err() == nil {
		u.log.Warn("report not written", "err", err)
	}
}

func (u *Updater) observe(ctx context.Context, order Order) (Observed, error) {
	o := Observed{Order: order, Record: u.record, Arch: u.cfg.Arch}
	var err error
	if o.State, err = u.cfg.Slots.State(); err != nil {
		return o, fmt.Errorf("read slots: %w", err)
	}
	if o.State.Trial() {
		o.Health = u.health(ctx)
		return o, nil
	}
	if cur := o.State.Current(); cur != nil && cur.Starts > 0 {
		o.Health = u.health(ctx)
	}
	if order.Image == "" {
		o.Fetched = u.fetcher.any()
		return o, nil
	}
	if o.Image, err = u.cfg.Images.Get(ctx, order.Image); err != nil {
		o.ImageWhy = err.Error()
		return o, nil
	}
	o.Fetched = u.fetcher.has(o.Image)
	return o, nil
}

func (u *Updater) health(ctx context.Context) Health {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	now := time.Now()
	// An agent that was started late has to look around first.
	h := Health{Late: now.Sub(u.cfg.Boot) >= u.cfg.HealthTimeout && now.Sub(u.began) >= u.cfg.Settle}
	if err := u.cfg.Healthy(ctx); err != nil {
		h.Why, u.wellSince = err.Error(), time.Time{}
		return h
	}
	if u.wellSince.IsZero() {
		u.wellSince = now
	}
	h.Settled = now.Sub(u.wellSince) >= u.cfg.Settle
	return h
}

// stop ends what is under way.
func (u *Updater) stop() {
	if u.job != nil {
		u.job.cancel()
		<-u.job.done
	}
}

// isDistrust says whether the bundle, and not its way here, is at fault.
func isDistrust(err error) bool {
	var d *distrustError
	return errors.As(err, &d) || bundle.Refused(err)
}
