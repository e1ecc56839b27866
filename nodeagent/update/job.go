package update

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/writ-os/writ/image/slot"
)

// job is a Fetch or a Stage under way. The loop goes on beside it, to tell of
// its progress and to end it when it is not wanted any more; it leaves the slots
// alone meanwhile.
type job struct {
	do        Do
	image     Image
	arguments string
	state     *slot.State // when it began
	action    Action
	cancel    context.CancelFunc
	done      chan result
	percent   atomic.Int64
}

type result struct {
	rootHash string // of what was staged
	err      error
}

// jobDone delivers the result of the job; without one it never does.
func (u *Updater) jobDone() <-chan result {
	if u.job == nil {
		return nil
	}
	return u.job.done
}

func (u *Updater) begin(ctx context.Context, o Observed, a Action) {
	ctx, cancel := context.WithCancel(ctx)
	j := &job{do: a.Do, image: o.Image, arguments: o.Order.Arguments, state: o.State, action: a, cancel: cancel, done: make(chan result, 1)}
	u.job = j
	go func() {
		var r result
		if j.do == Fetch {
			r.err = u.fetcher.fetch(ctx, j.image, j.progress)
		} else {
			r.rootHash, r.err = u.stage(ctx, j.image, j.progress)
		}
		j.done <- r
	}()
}

// progress is kept in tens: whoever follows the nodes of a large cluster hears
// of each step of each of them.
func (j *job) progress(done, total int64) {
	if total > 0 {
		j.percent.Store(10 * done / total * 10)
	}
}

func (j *job) report() Report {
	a := j.action
	a.Message = fmt.Sprintf("%s: %d %%", a.Message, j.percent.Load())
	return report(j.state, a)
}

// finish takes the result of the job.
func (u *Updater) finish(r result) {
	j := u.job
	u.job = nil
	j.cancel()
	if r.err == nil && j.do == Stage {
		r.err = u.staged(j.image, r.rootHash)
	}
	switch {
	case r.err == nil:
		u.tries, u.next = 0, time.Time{}
	case errors.Is(r.err, context.Canceled):
	case isDistrust(r.err), j.do == Stage && u.tries+1 >= stageTries:
		f := Failure{Image: j.image.Name, Digest: j.image.Digest, Arguments: j.arguments, Reason: r.err.Error()}
		if !isDistrust(r.err) {
			f.Reason += fmt.Sprintf("; it was tried %d times: look after the disk of this node, then order %s again", stageTries, j.image.Version)
		}
		if err := u.failed(f); err != nil {
			u.stumble(err)
		}
		// Should it be ordered again, it is fetched again.
		if err := u.fetcher.clean(Image{}); err != nil {
			u.stumble(err)
		}
	default:
		u.stumble(r.err)
	}
}
