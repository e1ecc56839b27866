package cuerule

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrLate is the error of a turn that has run out of time, or of waiting
// behind one.
var ErrLate = errors.New("rules are not evaluated in time: make them simpler")

// Turns let one goroutine at a time evaluate the values of a CUE context: CUE
// writes into values it has finished with. It cannot be interrupted either, so
// that an evaluation which takes longer than the limit is left behind: until
// it ends after all nobody gets a turn, and nobody waits for one.
type Turns struct {
	Limit time.Duration // of one turn

	now atomic.Pointer[turn] // nil: nobody's
}

// turn is one evaluation.
type turn struct{ over, late chan struct{} }

// Take evaluates when nobody else does, and waits for that. The error is that
// of ctx, or ErrLate; do's context is cancelled with either. What do has
// returned too late is not looked at: it may be a part.
func Take[T any](ctx context.Context, t *Turns, do func(context.Context) T) (T, error) {
	var none, v T
	mine := &turn{over: make(chan struct{}), late: make(chan struct{})}
	for !t.now.CompareAndSwap(nil, mine) {
		if before := t.now.Load(); before != nil {
			if err := before.wait(ctx); err != nil {
				return none, err
			}
		}
	}
	bounded, cancel := context.WithCancel(ctx)
	limit := time.AfterFunc(t.Limit, func() {
		close(mine.late)
		cancel()
	})
	go func() {
		defer cancel()
		v = do(bounded)
		limit.Stop()
		t.now.Store(nil)
		close(mine.over)
	}()
	if err := mine.wait(ctx); err != nil {
		return none, err
	}
	return v, nil
}

// wait waits for the end of a turn.
func (t *turn) wait(ctx context.Context) error {
	select {
	case <-t.over:
	case <-t.late:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-t.late:
		return ErrLate
	default:
		return nil
	}
}
