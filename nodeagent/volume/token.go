package volume

import (
	"context"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// tokenCache keeps tokens until they are due for renewal.
type tokenCache struct {
	mu     sync.Mutex
	tokens map[tokenKey]tokenEntry
}

type tokenKey struct{ uid, audiences string }

type tokenEntry struct {
	token   string
	refresh time.Time
}

// tokenLeast is the least time between two tokens for one purpose. A server
// whose clock is behind, or that gives out tokens that are old already, is not
// asked again and again.
const tokenLeast = time.Minute

// get returns a token and when to renew it: after four fifths of its life, or
// a day.
func (c *tokenCache) get(ctx context.Context, m *Mounter, uid, namespace, account string, tr *authenticationv1.TokenRequest) (string, time.Time, error) {
	key := tokenKey{uid, strings.Join(tr.Spec.Audiences, ",")}
	now := m.cfg.Now()
	c.mu.Lock()
	e, ok := c.tokens[key]
	c.mu.Unlock()
	if ok && now.Before(e.refresh) {
		return e.token, e.refresh, nil
	}
	got, err := m.cfg.Tokens.Token(ctx, namespace, account, tr)
	if err != nil {
		return "", time.Time{}, err
	}
	e = tokenEntry{got.Status.Token, refreshAt(now, got.Status.ExpirationTimestamp.Time)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tokens == nil {
		c.tokens = map[tokenKey]tokenEntry{}
	}
	c.tokens[key] = e
	return e.token, e.refresh, nil
}

func refreshAt(now, expires time.Time) time.Time {
	life := expires.Sub(now)
	return now.Add(max(min(life*4/5, 24*time.Hour), tokenLeast))
}

func (c *tokenCache) forget(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.tokens {
		if k.uid == uid {
			delete(c.tokens, k)
		}
	}
}
