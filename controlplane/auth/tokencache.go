package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apiserver/pkg/authentication/authenticator"
)

const (
	// maxCachedTokens bounds the memory of a server that is shown ever new
	// tokens: about 1 KB each.
	maxCachedTokens = 4096
	// sharedLookup is how long one question may take that several requests
	// with one token wait for.
	sharedLookup = 30 * time.Second
)

// tokenCache remembers what another authenticator said about a token. Tokens
// are kept as keyed hashes, so that a memory dump tells none.
type tokenCache struct {
	ask             authenticator.Token
	success, fail   time.Duration
	key             [sha256.Size]byte
	flights         singleflight.Group
	mu              sync.Mutex
	entries         map[string]cachedAnswer
	now             func() time.Time
	maxEntries      int
	lookupTimeLimit time.Duration
}

type cachedAnswer struct {
	resp  *authenticator.Response
	ok    bool
	err   error
	until time.Time
}

// NewTokenCache remembers good answers for success and refusals for fail; 0
// does not. Errors are not kept. Requests with one token ask once at a time.
func NewTokenCache(t authenticator.Token, success, fail time.Duration) authenticator.Token {
	c := &tokenCache{ask: t, success: success, fail: fail, entries: map[string]cachedAnswer{}, now: time.Now,
		maxEntries: maxCachedTokens, lookupTimeLimit: sharedLookup}
	_, _ = rand.Read(c.key[:]) // never fails
	return c
}

// AuthenticateToken implements authenticator.Token.
func (c *tokenCache) AuthenticateToken(ctx context.Context, t string) (*authenticator.Response, bool, error) {
	id := c.id(ctx, t)
	if a, ok := c.get(id); ok {
		return a.resp, a.ok, nil
	}
	// The question outlives the request that asked first: others wait for it.
	ch := c.flights.DoChan(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.lookupTimeLimit)
		defer cancel()
		var a cachedAnswer
		a.resp, a.ok, a.err = c.ask.AuthenticateToken(ctx, t)
		c.put(id, a)
		return a, nil
	})
	select {
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case r := <-ch:
		a := r.Val.(cachedAnswer)
		return a.resp, a.ok, a.err
	}
}

func (c *tokenCache) id(ctx context.Context, t string) string {
	h := hmac.New(sha256.New, c.key[:])
	var n [8]byte
	write := func(s string) {
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	write(t)
	audiences, ok := authenticator.AudiencesFrom(ctx)
	if ok {
		write("audiences")
	}
	for _, a := range audiences {
		write(a)
	}
	return string(h.Sum(nil))
}

func (c *tokenCache) get(id string) (cachedAnswer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.entries[id]
	if ok && !c.now().Before(a.until) {
		delete(c.entries, id)
		return a, false
	}
	return a, ok
}

func (c *tokenCache) put(id string, a cachedAnswer) {
	ttl := c.fail
	if a.ok {
		ttl = c.success
	}
	if ttl <= 0 || a.err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= c.maxEntries {
		c.evict()
	}
	a.until = c.now().Add(ttl)
	c.entries[id] = a
}

// evict drops what is over, and a tenth of the rest if that is not enough.
func (c *tokenCache) evict() {
	now := c.now()
	for id, a := range c.entries {
		if !now.Before(a.until) {
			delete(c.entries, id)
		}
	}
	for id := range c.entries { // Go's maps begin anywhere
		if len(c.entries) < c.maxEntries*9/10 {
			return
		}
		delete(c.entries, id)
	}
}
