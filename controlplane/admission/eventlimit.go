package admission

import (
	"container/list"
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// EventRateLimit refuses events that come too fast, so that one that is
// repeated without end does not fill the store.
type EventRateLimit struct {
	validates
	limits []*buckets
}

var _ registry.Admission = (*EventRateLimit)(nil)

func newEventRateLimit(limits []EventLimit) *EventRateLimit {
	p := &EventRateLimit{}
	for _, l := range limits {
		if l.CacheSize <= 0 {
			l.CacheSize = 4096
		}
		if l.Type == LimitServer {
			l.CacheSize = 1
		}
		p.limits = append(p.limits, &buckets{EventLimit: l, of: map[string]*list.Element{}, used: list.New()})
	}
	return p
}

// Handles implements registry.Handler.
func (p *EventRateLimit) Handles(verb string, r *schema.Resource, sub string) bool {
	return (verb == "create" || verb == "update") && sub == "" && r.Plural == "events" && (r.Group == "" || r.Group == "events.k8s.io") && len(p.limits) > 0
}

// Validate implements registry.Admission. A dry run counts nothing.
func (p *EventRateLimit) Validate(_ context.Context, a *registry.Attributes) error {
	if a.DryRun {
		return nil
	}
	var over []string
	for _, l := range p.limits {
		key := l.key(a)
		if !l.allow(key) {
			over = append(over, fmt.Sprintf("limit reached on type %v for key %v", l.Type, key))
		}
	}
	if len(over) == 0 {
		return nil
	}
	text := over[0]
	if len(over) > 1 {
		text = "[" + strings.Join(over, ", ") + "]"
	}
	return apierrors.NewTooManyRequestsError(text)
}

// buckets are the limiters of one sort, those used last.
type buckets struct {
	EventLimit

	mu   sync.Mutex
	of   map[string]*list.Element
	used *list.List // of *bucket, the last used in front
}

type bucket struct {
	key     string
	limiter *rate.Limiter
}

func (b *buckets) allow(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.of[key]
	if e == nil {
		if b.used.Len() >= b.CacheSize {
			old := b.used.Back()
			delete(b.of, b.used.Remove(old).(*bucket).key)
		}
		e = b.used.PushFront(&bucket{key, rate.NewLimiter(rate.Limit(b.QPS), int(b.Burst))})
		b.of[key] = e
	}
	b.used.MoveToFront(e)
	return e.Value.(*bucket).limiter.Allow()
}
