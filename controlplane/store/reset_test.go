package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/controlplane/store/killtest"
)

var discard = slog.New(slog.DiscardHandler)

// resetTakes is how long a child takes at most to reset a small store.
const resetTakes = 600 * time.Millisecond

// startedThree is a cluster of three of which each knows the names of all, with an
// object in it.
func startedThree(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, 3, nil)
	put(t, c.runs[0].Store, "a", "1")
	c.agree()
	eventually(t, 30*time.Second, func() error {
		for _, r := range c.runs {
			for _, m := range r.etcd.Cluster().Members() {
				if !m.IsStarted() {
					return fmt.Errorf("%v has not started", m.ID)
				}
			}
		}
		return nil
	})
	return c
}

// TestReset: the last of three goes on with what it has, and others join it. What
// was there stays. A watch from before is told to list again.
func TestReset(t *testing.T) {
	t.Parallel()
	c := startedThree(t)
	before, version, name := contents(c.runs[0].Store), c.runs[0].Version(), c.cfg[0].Members.Name
	put(t, c.runs[1].Store, "b", "1")
	c.agree()
	lost := c.runs[1].Version()
	if _, err := Reset(t.Context(), c.cfg[0].Dir, name, time.Now(), discard); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("reset of a store that runs: %v", err)
	}
	if _, err := ReadMembers(c.cfg[0].Dir); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("read beside a store that runs: %v", err)
	}
	for i := range c.runs {
		c.stop(i)
	}
	all, err := ReadMembers(c.cfg[0].Dir)
	if err != nil || len(all) != 3 || all[1].Name != c.cfg[1].Members.Name || all[1].URL != c.cfg[1].Members.URL || all[1].Learner {
		t.Fatalf("%+v, %v", all, err)
	}
	kept, err := Reset(t.Context(), c.cfg[0].Dir, name, time.Now(), discard)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := ReadMembers(kept); err != nil || len(all) != 3 {
		t.Errorf("what was there: %+v, %v", all, err)
	}
	if all, err := ReadMembers(c.cfg[0].Dir); err != nil || len(all) != 1 {
		t.Errorf("after the reset: %+v, %v", all, err)
	}
	if left, err := filepath.Glob(c.cfg[0].Dir + resetPattern); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := Reset(t.Context(), c.cfg[0].Dir, name, time.Now(), discard); err == nil || !strings.Contains(err.Error(), "the only member already") {
		t.Errorf("reset twice: %v", err)
	}
	s := c.start(0)
	got := contents(s)
	for k, v := range before {
		if got[k] != v {
			t.Errorf("%v is at %v, was at %v", k, got[k], v)
		}
	}
	if !s.IsLeader() || s.Version() <= lost || version >= lost {
		t.Errorf("leads: %v; at %v, was at %v", s.IsLeader(), s.Version(), lost)
	}
	if _, err := s.Watch(configMaps, lost); !errors.Is(err, ErrExpired) {
		t.Errorf("a watch from before: %v", err)
	}
	put(t, s, "a", "2")
	if err := runFor(t, c.cfg[1], time.Minute); !errors.Is(err, ErrRemoved) {
		t.Errorf("who was a member before the reset: %v", err)
	}
	c.cfg[1].Dir, c.cfg[1].Members.Initial = filepath.Join(t.TempDir(), "etcd"), nil
	j, err := s.AddMember(t.Context(), c.cfg[1].Members.Name, c.cfg[1].Members.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.cfg[1].Members.Join = j.Peers
	c.start(1)
	voters(t, s, 2)
	put(t, c.runs[1].Store, "a", "3")
	c.agree()

	// Both clusters are remembered after a second one.
	eventually(t, 30*time.Second, func() error {
		if m := c.runs[0].etcd.Cluster().Member(c.runs[0].etcd.MemberID()); m.Name != name {
			return fmt.Errorf("its name is %q", m.Name)
		}
		return nil
	})
	c.stop(0)
	c.stop(1)
	if _, err := Reset(t.Context(), c.cfg[0].Dir, name, time.Now().Add(time.Hour), discard); err != nil {
		t.Fatal(err)
	}
	if rec, err := readReset(c.cfg[0].Dir); err != nil || len(rec.Clusters) != 2 || rec.Clusters[0] == rec.Clusters[1] {
		t.Errorf("%+v, %v", rec, err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("what was there before the first: %v", err)
	}
	if s := c.start(0); value(s, "a") != "3" || value(s, "b") != "1" {
		t.Errorf("a is %q, b %q", value(s, "a"), value(s, "b"))
	}
}

// TestResetRefused: nothing is touched where it cannot be done.
func TestResetRefused(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	if _, err := Reset(t.Context(), empty, "m0", time.Now(), discard); !errors.Is(err, ErrNoData) {
		t.Errorf("no data: %v", err)
	}
	if _, err := Reset(t.Context(), filepath.Join(empty, "none"), "m0", time.Now(), discard); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	c := startedThree(t)
	for i := range c.runs {
		c.stop(i)
	}
	if _, err := Reset(t.Context(), c.cfg[0].Dir, "stranger", time.Now(), discard); err == nil || !strings.Contains(err.Error(), "never became a member") {
		t.Errorf("another name: %v", err)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	for _, text := range []string{"", "{", `{"clusters":["x"]}`} {
		if err := errors.Join(os.MkdirAll(bad, 0o700), os.WriteFile(filepath.Join(bad, resetFile), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if rec, err := readReset(bad); err == nil {
			t.Errorf("%q: %+v", text, rec)
		}
	}
}

// resetChild resets the store in its directory, and dies at some moment of that.
func resetChild(m *killtest.Mortal) {
	if _, err := Reset(context.Background(), filepath.Join(m.Dir, "etcd"), "m0", time.Now(), discard); err != nil {
		killtest.Fail(err)
	}
	select {} // it is killed after the reset as well
}

// TestKillReset kills a reset at any moment of it. What is there afterwards is
// either the member of three that it was, or alone; the same call brings it to an
// end, nothing is lost, and the one that was there can still be found.
func TestKillReset(t *testing.T) {
	t.Parallel()
	c := startedThree(t)
	for i := range c.runs {
		c.stop(i)
	}
	was, alone := 0, 0
	killtest.Rounds(t, killtest.Config{Rounds: 20, Delay: resetTakes}, func(p killtest.Point) {
		dir := t.TempDir()
		at := filepath.Join(dir, "etcd")
		if err := copyTree(t.Context(), c.cfg[0].Dir, at); err != nil {
			t.Fatal(err)
		}
		p.Live(t, "reset", dir, func(string) {})
		all, err := ReadMembers(at)
		if err != nil {
			t.Fatal(err)
		}
		switch len(all) {
		case 1:
			alone++
		case 3:
			was++
			if _, err := Reset(t.Context(), at, "m0", time.Now(), discard); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("%+v", all)
		}
		if err := clearResets(at); err != nil {
			t.Fatal(err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 2 {
			t.Errorf("%v: there are %v, %v", p, left, err)
		}
		if kept, err := filepath.Glob(at + beforeInfix + "*"); err != nil || len(kept) != 1 {
			t.Errorf("%v: kept %v, %v", p, kept, err)
		} else if all, err := ReadMembers(kept[0]); err != nil || len(all) != 3 {
			t.Errorf("%v: what was there: %+v, %v", p, all, err)
		}
		s, stop := open(t, Config{Dir: at})
		if value(s, "a") != "1" {
			t.Errorf("%v: a is %q", p, value(s, "a"))
		}
		stop()
	})
	t.Logf("killed before it %d times, after it %d times", was, alone)
}
