package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/schema"
)

// CacheConfig says what a cache holds.
type CacheConfig struct {
	Client    Reader
	Resources []Selection
	Log       *slog.Logger
}

// Selection is a resource and which of its objects to hold.
type Selection struct {
	Resource *schema.Resource
	ListOptions
}

// WatchCache is a Cache that follows a server by watches: one per resource,
// begun with the objects that exist, resumed where it broke off, begun anew
// where the server no longer knows that place.
type WatchCache struct {
	log    *slog.Logger
	client Reader
	tables map[*schema.Resource]*table
	sel    []Selection
}

var _ Cache = (*WatchCache)(nil)

// NewCache returns a cache that is empty until Run.
func NewCache(cfg CacheConfig) *WatchCache {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &WatchCache{log: cfg.Log, client: cfg.Client, tables: map[*schema.Resource]*table{}, sel: cfg.Resources}
	for _, s := range cfg.Resources {
		c.tables[s.Resource] = newTable()
	}
	return c
}

// Run follows the server until ctx is done. Failures of the server are
// logged and tried again with back-off.
func (c *WatchCache) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range c.sel {
		f := &follower{reader: c.client, selection: s, table: c.tables[s.Resource], log: c.log.With("resource", s.Resource.String())}
		g.Go(func() error { return f.run(ctx) })
	}
	return g.Wait()
}

// WaitSynced returns when every resource has been read once.
func (c *WatchCache) WaitSynced(ctx context.Context) error {
	for _, s := range c.sel {
		select {
		case <-c.tables[s.Resource].synced:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", s.Resource, ctx.Err())
		}
	}
	return nil
}

// Get implements Cache.
func (c *WatchCache) Get(r *schema.Resource, key schema.Key) (schema.Object, bool) {
	if t := c.tables[r]; t != nil {
		return t.get(key)
	}
	return nil, false
}

// List implements Cache.
func (c *WatchCache) List(r *schema.Resource, namespace string) []schema.Object {
	if t := c.tables[r]; t != nil {
		return t.list(namespace)
	}
	return nil
}

// Index implements Cache.
func (c *WatchCache) Index(r *schema.Resource, index, value string) []schema.Object {
	if t := c.tables[r]; t != nil {
		return t.byIndex(index, value)
	}
	return nil
}

// ErrNotCached is the error of a subscription to a resource that the cache
// was not told to hold.
var ErrNotCached = errors.New("resource is not in the cache")

// Subscribe implements Cache.
func (c *WatchCache) Subscribe(ctx context.Context, r *schema.Resource, fn func(Event)) error {
	t := c.tables[r]
	if t == nil {
		return fmt.Errorf("subscribe to %s: %w", r, ErrNotCached)
	}
	select {
	case <-t.synced:
	case <-ctx.Done():
		return ctx.Err()
	}
	t.subscribe(ctx, fn)
	return nil
}
