package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// pullIdle is how long a pull that waits for a registry may get nothing from
// it, as containerd's own image_pull_progress_timeout.
const pullIdle = 5 * time.Minute

var errPullStuck = errors.New("the registry has sent nothing")

// pullMoves sees what a pull gets from registries. It ends the pull when a
// request is open and nothing comes; while nothing is asked, as when layers are
// unpacked, it waits.
type pullMoves struct {
	open  atomic.Int64
	moved atomic.Uint64
	stop  context.CancelCauseFunc
	over  chan struct{}
	once  sync.Once
}

// watchPull returns the context of a pull, which ends when nothing has moved for
// idle. end must be called.
func watchPull(ctx context.Context, idle time.Duration) (context.Context, *pullMoves) {
	ctx, cancel := context.WithCancelCause(ctx)
	m := &pullMoves{stop: cancel, over: make(chan struct{})}
	go m.watch(ctx, idle)
	return ctx, m
}

func (m *pullMoves) end() {
	m.once.Do(func() {
		close(m.over)
		m.stop(nil)
	})
}

func (m *pullMoves) watch(ctx context.Context, idle time.Duration) {
	tick := time.NewTicker(idle / 10)
	defer tick.Stop()
	since, have := time.Now(), m.moved.Load()
	for {
		select {
		case <-m.over:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := m.moved.Load(); now != have || m.open.Load() == 0 {
			since, have = time.Now(), now
		} else if time.Since(since) >= idle {
			m.stop(fmt.Errorf("%w for %s", errPullStuck, idle))
			return
		}
	}
}

// client returns a client whose answers are seen.
func (m *pullMoves) client(c *http.Client) *http.Client {
	seen := *c
	seen.Transport = movingTransport{m, c.Transport}
	return &seen
}

type movingTransport struct {
	*pullMoves
	http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t movingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.open.Add(1)
	resp, err := t.RoundTripper.RoundTrip(r)
	t.moved.Add(1)
	if err != nil {
		t.open.Add(-1)
		return nil, err
	}
	resp.Body = &movingBody{ReadCloser: resp.Body, m: t.pullMoves}
	return resp, nil
}

type movingBody struct {
	io.ReadCloser
	m    *pullMoves
	once sync.Once
}

func (b *movingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.m.moved.Add(uint64(n))
	if err != nil {
		b.closed()
	}
	return n, err
}

func (b *movingBody) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}

func (b *movingBody) closed() { b.once.Do(func() { b.m.open.Add(-1) }) }
