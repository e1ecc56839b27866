package page

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// hub hears of changes in the cluster and wakes the streams that they concern.
// It is subscribed to the cache only while there are streams, and a while
// after.
type hub struct {
	cfg Config

	mu      sync.Mutex
	streams map[*stream]struct{}
	users   map[string]int
	ended   chan struct{} // closed with run; nil: it does not run
	arrived chan struct{} // a stream has come
}

const (
	// linger is how long the hub listens after the last stream has gone: a
	// reload must not subscribe to every kind again.
	linger = time.Minute
	// maxStreams and maxUserStreams bound open pages.
	maxStreams     = 256
	maxUserStreams = 32
)

func newHub(cfg Config) *hub {
	return &hub{cfg: cfg, streams: map[*stream]struct{}{}, users: map[string]int{}, arrived: make(chan struct{}, 1)}
}

// run listens whenever there are streams, until ctx ends.
func (h *hub) run(ctx context.Context) error {
	ended := make(chan struct{})
	h.mu.Lock()
	h.ended = ended
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.ended = nil
		h.mu.Unlock()
		close(ended)
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.arrived:
		}
		for h.count() > 0 {
			if err := h.listen(ctx); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("listen to changes: %w", err)
			}
		}
	}
}

func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams)
}

// listen subscribes to every kind, until nobody looks any more or there are
// other kinds.
func (h *hub) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := h.cfg.Catalog.Changed() // before Load: no change is missed
	catalog := h.cfg.Catalog.Load()
	for _, stored := range catalog.Stored() {
		r := catalog.Served(stored)
		if r == nil || topicOf(r) == "" {
			continue
		}
		var begun atomic.Bool // what exists is no change
		err := h.cfg.Cache.Subscribe(ctx, stored, func(ev client.Event) {
			if begun.Load() && ev.Object != nil {
				h.tell(r, ev.Object.GetNamespace())
			}
		})
		// A kind that the cache does not hold, or does not hold any more, has no
		// changes to tell of.
		if err != nil && !errors.Is(err, client.ErrNotCached) && ctx.Err() == nil {
			h.cfg.Log.Debug("page does not follow a kind", "resource", r.String(), "err", err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		begun.Store(true)
	}
	// What changed before the hub listened: every page looks again.
	h.tellAll()
	tick := time.NewTicker(linger)
	defer tick.Stop()
	for idle := false; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
			return nil
		case <-tick.C:
			if h.count() > 0 {
				idle = false
			} else if idle {
				return nil
			} else {
				idle = true
			}
		}
	}
}

// topicOf is what a kind's changes concern; "" nobody.
func topicOf(r *schema.Resource) string {
	switch r.Kind {
	case "Commit":
		return "commits"
	case "Repository", "Inventory":
		return "repositories"
	case "Node":
		return "nodes"
	case "Event":
		return "events"
	case "Lease", "ComponentStatus":
		return ""
	}
	return "objects"
}

// concerns says whether a page that listens to a topic shows a kind.
func concerns(topics map[string]bool, r *schema.Resource) bool {
	switch {
	case topics[topicOf(r)]:
		return true
	case r.Kind == "Pod":
		return topics["nodes"]
	case r.Kind == "Inventory":
		return topics["objects"]
	}
	return false
}

// tell is called by whoever writes to the cluster: it only notes.
func (h *hub) tell(r *schema.Resource, namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		if concerns(s.topics, r) {
			s.note(access{r, namespace})
		}
	}
}

func (h *hub) tellAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		s.noteAll()
	}
}

// join adds a stream, unless there are too many. leave takes it out again;
// ended is closed when no more changes come.
func (h *hub) join(s *stream) (leave func(), ended <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ended == nil:
		return nil, nil, errors.New("the cluster tells of no changes now")
	case len(h.streams) >= maxStreams:
		return nil, nil, fmt.Errorf("%d pages are open; no more can follow changes", maxStreams)
	case h.users[s.user] >= maxUserStreams:
		return nil, nil, fmt.Errorf("you have %d pages open; no more can follow changes", maxUserStreams)
	}
	h.streams[s] = struct{}{}
	h.users[s.user]++
	select {
	case h.arrived <- struct{}{}:
	default:
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.streams, s)
		if h.users[s.user]--; h.users[s.user] == 0 {
			delete(h.users, s.user)
		}
	}, h.ended, nil
}
