package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// here runs a function without a child.
func here[Q, A any](ctx context.Context, f Func[Q, A], q Q, h Help, limit time.Duration) (A, error) {
	type result struct {
		a   A
		err error
	}
	var at atomic.Int64
	at.Store(-1)
	done := make(chan result, 1)
	var asking sync.Mutex
	left := false // what it asks then, nobody answers
	defer func() {
		asking.Lock()
		defer asking.Unlock()
		left = true
	}()
	c := &Caller{File: h.File, at: func(n int) { at.Store(int64(n)) }, ask: func(question []byte) ([]byte, error) {
		asking.Lock()
		defer asking.Unlock()
		if left {
			return nil, context.Canceled
		}
		return h.Answer(question)
	}}
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = &Death{Cause: Failed, Why: fmt.Sprintf("it broke down: %v", p), At: int(at.Load())}
			}
			done <- r
		}()
		r.a = f.run(q, c)
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case r := <-done:
		return r.a, cmp.Or(ctx.Err(), r.err)
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	case <-late.C:
		var none A
		return none, &Death{Cause: Late, Limit: limit, At: int(at.Load())}
	}
}
