package controller

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/writ-os/writ/controlplane/client"
)

// The slow look at everything, for the wake that was missed: a Map function
// that did not know a case, an event that came before what it depends on.
const (
	// lookPeriod is the default of Config.Look. Each look is up to a third
	// earlier or later, so that controllers do not look together.
	lookPeriod = 15 * time.Minute
	// lookBatch keys are queued at a time, lookPause apart, so that a look at a
	// large cluster holds up no event for long.
	lookBatch = 64
	lookPause = 100 * time.Millisecond
)

// lookAgain queues all keys of the first watch now and then.
func (c *Controller) lookAgain(ctx context.Context) {
	for sleep(ctx, c.cfg.Look*2/3+rand.N(c.cfg.Look*2/3)) {
		c.queue.tidy()
		if len(c.cfg.Watches) == 0 {
			continue
		}
		w := c.cfg.Watches[0]
		for i, o := range c.cfg.Cache.List(w.Resource, "") {
			if i%lookBatch == lookBatch-1 && !sleep(ctx, lookPause) {
				return
			}
			for _, key := range w.keys(client.Event{Type: client.Modified, Object: o, Old: o}) {
				c.queue.look(key)
			}
		}
	}
}

// sleep waits; false when ctx is done.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
