package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	objects = 5000 // that the cluster has when a few of them change
	pushes  = 120
)

// commits measures push to applied through the built-in remote with stock git.
func commits(ctx context.Context, e *env) ([]row, error) {
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	w, err := e.builtin(ctx, 40)
	if err != nil {
		return nil, err
	}
	const n = 4000
	if err := w.fill(0, n, 0, deployment); err != nil {
		return nil, err
	}
	before, err := measure(p)
	if err != nil {
		return nil, err
	}
	all, push, err := w.apply(ctx, "Four thousand objects")
	if err != nil {
		return nil, err
	}
	loaded, err := measure(p)
	if err != nil {
		return nil, err
	}
	rows := []row{{"P14", "4,000 new objects, end of push to applied", "24-34 s, 25-35 CPU s", "2.5 s",
		fmt.Sprintf("%s (the push with its check %s), %.1f CPU s in all", ms(all), ms(push.took), loaded.since(before).Seconds())}}
	if err := w.fill(n, objects-n, 0, deployment); err != nil {
		return nil, err
	}
	if _, _, err := w.apply(ctx, "The other thousand"); err != nil {
		return nil, err
	}
	if _, err := atRest(ctx, p); err != nil { // the controllers have made their ReplicaSets
		return nil, err
	}
	few, err := w.turns(ctx, pushes, func(round int) error { return w.fill(round*37, 10, round, deployment) })
	if err != nil {
		return nil, err
	}
	return append(rows, row{"P13", "10 of 5,000 objects changed, end of push to applied", "17-22 s, 22-25 CPU s (of 4,000)", "p50 60 ms, p99 200 ms", few.String()}), nil
}

// turns are the times of many small pushes, one after the other.
type turns struct {
	applied []time.Duration // from the end of the push
	push    []time.Duration
	cpu     time.Duration // of the server, of all of them
}

func (t turns) String() string {
	return fmt.Sprintf("p50 %s, p99 %s of %d (the push with its check %s), %s",
		ms(median(t.applied)), ms(quantile(t.applied, 0.99)), len(t.applied), ms(median(t.push)), each(t.cpu, len(t.applied)))
}

// turns pushes n times what change does to the worktree, each push when the
// one before is applied. A tenth more at the beginning does not count.
func (w *worktree) turns(ctx context.Context, n int, change func(round int) error) (t turns, err error) {
	p := w.e.procs[0]
	var before usage
	for round := range n + n/10 {
		if round == n/10 {
			if before, err = measure(p); err != nil {
				return t, err
			}
			t = turns{}
		}
		if err := change(round + 1); err != nil {
			return t, err
		}
		took, push, err := w.apply(ctx, fmt.Sprintf("Round %d", round+1))
		if err != nil {
			return t, err
		}
		t.applied, t.push = append(t.applied, took), append(t.push, push.took)
	}
	after, err := measure(p)
	t.cpu = after.since(before)
	return t, err
}

// quantile is the nearest rank, upwards.
func quantile(d []time.Duration, q float64) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[min(len(s)-1, int(float64(len(s))*q))]
}
