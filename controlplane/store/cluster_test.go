package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema"
)

// clusterTick makes an election take 0.3 s at least.
const clusterTick = 30 * time.Millisecond

// cluster is several members in this process.
type cluster struct {
	t    testing.TB
	net  *network
	cfg  []Config
	runs []*running
}

// running is one life of a member.
type running struct {
	*Store
	cancel context.CancelFunc
	done   chan error
}

// newCluster starts n members at once, and waits until all are ready.
func newCluster(t testing.TB, n int, change func(*Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, net: newNetwork(t, n)}
	initial := map[string]string{}
	for i := range n {
		m := c.net.member(i)
		initial[m.Name] = m.URL
	}
	for i := range n {
		cfg := c.config(i)
		cfg.Members.Initial = initial
		if change != nil {
			change(&cfg)
		}
		c.cfg = append(c.cfg, cfg)
		c.runs = append(c.runs, nil)
	}
	for i := range n {
		c.launch(i)
	}
	for i := range n {
		c.await(i)
	}
	return c
}

func (c *cluster) config(i int) Config {
	return Config{Dir: filepath.Join(c.t.TempDir(), "etcd"), Tick: clusterTick, Members: c.net.member(i), Log: quiet(fmt.Sprintf("m%d", i))}
}

// quiet shows errors only: members warn of each other when they are kept apart.
func quiet(member string) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel})).With("member", member)
}

// launch starts a member and does not wait for it.
func (c *cluster) launch(i int) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Store: New(c.cfg[i]), cancel: cancel, done: make(chan error, 1)}
	c.runs[i] = r
	go func() { r.done <- r.Run(ctx) }()
	c.t.Cleanup(func() { c.stop(i) })
	return r
}

// await waits until a member is ready.
func (c *cluster) await(i int) *Store {
	c.t.Helper()
	r := c.runs[i]
	select {
	case <-r.Ready():
	case err := <-r.done:
		r.done <- nil
		c.t.Fatalf("member %d ended: %v", i, err)
	case <-time.After(time.Minute):
		c.t.Fatalf("member %d is not ready", i)
	}
	return r.Store
}

func (c *cluster) start(i int) *Store {
	c.t.Helper()
	c.launch(i)
	return c.await(i)
}

func (c *cluster) stop(i int) {
	r := c.runs[i]
	if r == nil {
		return
	}
	c.runs[i] = nil
	r.cancel()
	if err := <-r.done; err != nil && !errors.Is(err, context.Canceled) {
		c.t.Errorf("member %d ended: %v", i, err)
	}
}

// leader waits until one of some members leads, of all by default.
func (c *cluster) leader(among ...int) int {
	c.t.Helper()
	if among == nil {
		for i := range c.runs {
			among = append(among, i)
		}
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, i := range among {
			if c.runs[i] != nil && c.runs[i].IsLeader() {
				return i
			}
		}
	}
	c.t.Fatal("nobody leads")
	return 0
}

// agree demands that all members hold the same objects at the same versions.
func (c *cluster) agree() {
	c.t.Helper()
	var want map[schema.Key]schema.ResourceVersion
	for i, r := range c.runs {
		if r == nil {
			continue
		}
		eventually(c.t, 30*time.Second, func() error { return r.Current(c.t.Context()) })
		got := contents(r.Store)
		if want == nil {
			want = got
		}
		if len(got) != len(want) {
			c.t.Errorf("member %d holds %d objects, another %d", i, len(got), len(want))
		}
		for k, v := range want {
			if got[k] != v {
				c.t.Errorf("%v is at %v on member %d, and at %v on another", k, got[k], i, v)
			}
		}
	}
}

func contents(s *Store) map[schema.Key]schema.ResourceVersion {
	got := map[schema.Key]schema.ResourceVersion{}
	for it := range s.Snapshot(configMaps).All() {
		got[it.Key] = it.Version
	}
	return got
}

// eventually tries until there is no error.
func eventually(t testing.TB, within time.Duration, f func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// voters demands that all of n members have a vote.
func voters(t testing.TB, s *Store, n int) {
	t.Helper()
	eventually(t, 30*time.Second, func() error {
		all, err := s.Members(t.Context())
		if err != nil {
			return err
		}
		votes := 0
		for _, m := range all {
			if !m.Learner {
				votes++
			}
		}
		if votes != n || len(all) != n {
			return fmt.Errorf("members %+v, want %d with a vote", all, n)
		}
		return nil
	})
}

// TestGrow: a store that was alone becomes the first of three, and all that was
// stored before is on each of them, at the same version.
func TestGrow(t *testing.T) {
	t.Parallel()
	c := &cluster{t: t, net: newNetwork(t, 3)}
	alone := Config{Dir: filepath.Join(t.TempDir(), "etcd")}
	s, stop := open(t, alone)
	commit(t, s, manyConfigMaps(300)...)
	commit(t, s, create(configMap("default", "a", "alone")))
	before, version := contents(s), s.Version()
	stop()

	for i := range 3 {
		c.cfg, c.runs = append(c.cfg, c.config(i)), append(c.runs, nil)
	}
	c.cfg[0].Dir = alone.Dir
	began := time.Now()
	s = c.start(0)
	if s.Version() != version || !s.IsLeader() {
		t.Fatalf("the first of several is at %v, it was at %v alone; leads: %v", s.Version(), version, s.IsLeader())
	}
	t.Logf("alone to the first member: %v", time.Since(began))
	for i := 1; i < 3; i++ {
		began := time.Now()
		m := c.cfg[i].Members
		if i == 2 { // any member may add another
			s = c.runs[1].Store
		}
		j, err := s.AddMember(t.Context(), m.Name, m.URL)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.AddMember(t.Context(), m.Name, m.URL); err != nil || again.ID != j.ID {
			t.Errorf("added again: %+v, %v", again, err)
		}
		added := time.Since(began)
		m.Join = j.Peers
		c.start(i)
		ready := time.Since(began)
		voters(t, s, i+1)
		t.Logf("member %d: added after %v, ready after %v, votes after %v", i, added, ready, time.Since(began))
	}
	for i, r := range c.runs {
		got := contents(r.Store)
		for k, v := range before {
			if got[k] != v {
				t.Fatalf("member %d holds %v at %v, want %v", i, k, got[k], v)
			}
		}
	}
	// Each writes, and each reads what the others wrote.
	for i, r := range c.runs {
		it := commit(t, r.Store, create(configMap("default", fmt.Sprintf("of-%d", i), "x")))[0]
		for j, other := range c.runs {
			if err := other.Current(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := other.Get(configMaps, it.Key); got == nil || got.Version != it.Version || got.Object.(*corev1.ConfigMap).Data["v"] != "x" {
				t.Errorf("member %d wrote %v at %v, member %d reads %v", i, it.Key, it.Version, j, got)
			}
		}
	}
	// A member is found again without being told who the others are.
	c.stop(1)
	c.cfg[1].Members.Join = nil
	c.start(1)
	c.agree()
}
