package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// counting knows tokens by their first letter: g is good, e an error, h hangs.
type counting struct{ asked atomic.Int64 }

func (c *counting) AuthenticateToken(ctx context.Context, t string) (*authenticator.Response, bool, error) {
	c.asked.Add(1)
	switch t[0] {
	case 'g':
		return &authenticator.Response{User: &user.DefaultInfo{Name: t}}, true, nil
	case 'e':
		return nil, false, errors.New("no answer")
	case 'h':
		<-ctx.Done()
		return nil, false, ctx.Err()
	}
	return nil, false, nil
}

func TestTokenCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := &counting{}
		c := NewTokenCache(asks, 10*time.Second, 2*time.Second)
		ask := func(ctx context.Context, token string, wantOK bool, wantAsked int64) {
			t.Helper()
			r, ok, err := c.AuthenticateToken(ctx, token)
			if ok != wantOK || ok && r.User.GetName() != token || err != nil && token[0] != 'e' {
				t.Errorf("%s: %v, %v, %v", token, r, ok, err)
			}
			if n := asks.asked.Swap(0); n != wantAsked {
				t.Errorf("%s: asked %d times, want %d", token, n, wantAsked)
			}
		}
		ctx := t.Context()
		ask(ctx, "good", true, 1)
		ask(ctx, "good", true, 0)
		ask(authenticator.WithAudiences(ctx, authenticator.Audiences{"a"}), "good", true, 1)
		ask(authenticator.WithAudiences(ctx, authenticator.Audiences{"b"}), "good", true, 1)
		ask(ctx, "bad", false, 1)
		ask(ctx, "bad", false, 0)
		ask(ctx, "err", false, 1)
		ask(ctx, "err", false, 1)
		time.Sleep(3 * time.Second)
		ask(ctx, "bad", false, 1)
		ask(ctx, "good", true, 0)
		time.Sleep(8 * time.Second)
		ask(ctx, "good", true, 1)

		// Requests with one token ask once, and who goes away does not take the
		// others with him.
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, time.Duration(i+1)*time.Second)
				defer cancel()
				if _, ok, err := c.AuthenticateToken(ctx, "hang"); ok || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v, %v", ok, err)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute) // the question itself ends, too
		synctest.Wait()
		if n := asks.asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestTokenCacheIsBounded(t *testing.T) {
	c := NewTokenCache(&counting{}, time.Hour, time.Hour).(*tokenCache)
	c.maxEntries = 100
	for i := range 1000 {
		if _, ok, err := c.AuthenticateToken(t.Context(), fmt.Sprint("g", i)); !ok || err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.entries); n > 100 || n < 80 {
		t.Errorf("%d entries", n)
	}
}

// TestReview: what a TokenReview is told.
func TestReview(t *testing.T) {
	a := NewAuthenticator(AuthenticatorConfig{Static: &counting{}, Audiences: []string{"api"}})
	u, audiences, err := Reviewer{a}.Authenticate("good", nil)
	if err != nil || u.GetName() != "good" || fmt.Sprint(audiences, u.GetGroups()) != "[api] [system:authenticated]" {
		t.Errorf("%v, %v, %v", u, audiences, err)
	}
	if _, got, err := a.AuthenticateToken(t.Context(), "good", []string{"vault", "api"}); err != nil || fmt.Sprint(got) != "[api]" {
		t.Errorf("%v, %v", got, err)
	}
	for token, want := range map[string]string{"bad": "invalid bearer token", "err": "[invalid bearer token, no answer]"} {
		if _, _, err := a.AuthenticateToken(t.Context(), token, nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v", token, err)
		}
	}
	if _, _, err := a.AuthenticateToken(t.Context(), "good", []string{"vault"}); err == nil {
		t.Error("a token of the API server is good for vault")
	}
	if _, _, err := NewAuthenticator(AuthenticatorConfig{}).AuthenticateToken(t.Context(), "good", nil); err == nil {
		t.Error("no tokens are accepted")
	}
}
