package update

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-os/writ/image/slot/sim"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// damage turns a bit of the content of a version on the disk.
func (c *computer) damage(version string) {
	c.w.t.Helper()
	all, err := io.ReadAll(io.NewSectionReader(c.machine.Disk, 0, c.machine.Disk.Size()))
	if err != nil {
		c.w.t.Fatal(err)
	}
	at := bytes.Index(all, c.versions[version].Root)
	if at < 0 {
		c.w.t.Fatalf("%s is not on the disk", version)
	}
	c.machine.Disk.Damage(int64(at) + 3*4096 + 17)
}

// power runs the machine, and returns what turns it off.
func (c *computer) power() (off func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.life(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			c.w.t.Error(err)
		}
	}
}

const isDamaged = "is damaged on the disk of this node (block 3 of the root file system is not what the root hash stands for)"

// A good version whose copy is damaged afterwards gives way to the one before. The
// image is not to blame: it is fetched again, until the disk has shown that it is.
func TestDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newComputer(w)
		off := c.power()
		defer func() { off() }()
		for range 2 { // again, when it is ordered again
			for range copies {
				w.order("v5", "")
				w.await(v1alpha1.UpdateStaged, "4.0.0")
				w.reboot("v5")
				w.await(v1alpha1.UpdateIdle, "5.0.0")
				w.order("", "")
				w.await(v1alpha1.UpdateIdle, "5.0.0")
				time.Sleep(2 * time.Minute) // it becomes well
				off()
				c.damage("5.0.0")
				c.machine.Boots = nil
				off = c.power()
				w.await(v1alpha1.UpdateIdle, "4.0.0")
				time.Sleep(time.Minute)
				w.failed("", "4.0.0 runs, since the copy of 5.0.0 in slot B "+isDamaged)
				if len(c.machine.Boots) != 4 {
					t.Errorf("boots %v", c.machine.Boots)
				}
			}
			w.told()
			w.order("v5", "")
			w.await(v1alpha1.UpdateFailed, "4.0.0")
			w.stays(v1alpha1.UpdateFailed)
			w.failed("", "5.0.0 was damaged on the disk of this node 3 times, now block 3 of the root file system is not what the root hash stands for; 4.0.0 runs: look after the disk of this node, then order 5.0.0 again")
			t.Log(w.node()[v1alpha1.UpdateMessageAnnotation])
			// Another version is not its fault.
			w.order("", "")
			w.await(v1alpha1.UpdateIdle, "4.0.0")
			w.stays(v1alpha1.UpdateIdle)
		}
		w.order("v6", "")
		w.await(v1alpha1.UpdateStaged, "4.0.0")
	})
}

// What is damaged while it is on trial is no bad version either.
func TestDamageOnTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newComputer(w)
		off := c.power()
		defer func() { off() }()
		w.order("v5", "")
		w.await(v1alpha1.UpdateStaged, "4.0.0")
		w.broken["v5"] = true
		w.reboot("v5")
		w.await(v1alpha1.UpdateTrying, "5.0.0")
		off()
		c.damage("5.0.0")
		w.broken["v5"] = false
		off = c.power()
		// Still drained, and told to reboot: it is fetched and tried again.
		w.await(v1alpha1.UpdateIdle, "5.0.0")
		w.failed("", "5.0.0 runs")
		if got := w.told(); !strings.Contains(got, "Trying Downloading Writing Rebooting Trying Idle") && !strings.Contains(got, "Trying Idle Downloading Writing Rebooting Trying Idle") {
			t.Errorf("told %s", got)
		}
	})
}

// A node without an order, and one whose servers are away, start as ever.
func TestDamageOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newComputer(w)
		c.well = func(string) error { return io.EOF }
		for range 10 {
			off := c.power()
			w.await(v1alpha1.UpdateIdle, "4.0.0")
			time.Sleep(time.Minute)
			off()
		}
		if len(c.machine.Boots) != 10 || len(c.machine.Said) != 6 {
			t.Errorf("boots %v, said %q", c.machine.Boots, c.machine.Said)
		}
		// Once it is well, it has time again.
		c.well, c.machine.Said = func(string) error { return nil }, nil
		for range 10 {
			off := c.power()
			w.await(v1alpha1.UpdateIdle, "4.0.0")
			time.Sleep(2 * time.Minute)
			off()
		}
		if len(c.machine.Said) != 0 {
			t.Errorf("said %q", c.machine.Said)
		}
	})
}

// The power fails at many moments of a repair: what was ordered comes all the same.
func TestDamagePowerFailure(t *testing.T) {
	for cut := 0; cut < 60; cut += 5 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			c := newComputer(w)
			off := c.power()
			w.order("v5", "")
			w.await(v1alpha1.UpdateStaged, "4.0.0")
			w.reboot("v5")
			w.await(v1alpha1.UpdateIdle, "5.0.0")
			off()
			c.damage("5.0.0")
			w.order("v5", "")
			c.machine.Power.CutAfter(cut)
			cutOff := func() {
				defer func() { c.machine.PowerOn(uint64(cut), 0.5) }()
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
				defer cancel()
				if err := c.life(ctx); err != nil && !errors.Is(err, sim.ErrPower) {
					t.Error(err)
				}
			}
			cutOff()
			off = c.power()
			defer func() { off() }()
			for range 1200 {
				time.Sleep(time.Second)
				n := w.node()
				switch phase := n[v1alpha1.UpdatePhaseAnnotation]; {
				case phase == string(v1alpha1.UpdateFailed):
					w.order("", "") // a controller that orders again
					time.Sleep(time.Second)
					w.order("v5", "")
				case phase == string(v1alpha1.UpdateStaged):
					w.reboot("v5")
				case phase == string(v1alpha1.UpdateIdle) && n[v1alpha1.ImageAnnotation] == "5.0.0" && c.machine.Whole(c.versions["5.0.0"].RootHash) == nil:
					return
				}
			}
			t.Errorf("cut %d: %v, boots %v", cut, w.node(), c.machine.Boots)
		})
	}
}
