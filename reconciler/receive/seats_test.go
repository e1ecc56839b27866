package receive

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// One user takes no seat that others need, and who waits is let in by turns.
func TestSeatsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seats
		var held []func()
		take := func(user string) bool {
			release, ok := s.acquire(t.Context(), user)
			if ok {
				held = append(held, release)
			}
			return ok
		}
		if !take("ann") || !take("ann") || take("ann") { // the last waits in vain
			t.Fatal("ann has more, or less, than her seats")
		}
		for _, u := range []string{"bob", "bob", "eve", "eve"} {
			if !take(u) {
				t.Fatalf("%s has no seat", u)
			}
		}
		if take("zoe") {
			t.Fatal("there are more seats than there are")
		}
		got := make(chan bool)
		go func() { got <- take("zoe") }()
		synctest.Wait()
		held[0]()
		if !<-got {
			t.Error("zoe is not let in")
		}
		for i := range maxWaiting {
			go func() {
				if release, ok := s.acquire(t.Context(), fmt.Sprint(i)); ok {
					release()
				}
			}()
		}
		synctest.Wait()
		if take("late") || len(s.waiting) != maxWaiting {
			t.Errorf("%d wait", len(s.waiting))
		}
		for _, release := range held[1:] {
			release()
		}
		synctest.Wait()
		if s.taken != 0 || len(s.of) != 0 || len(s.waiting) != 0 {
			t.Errorf("%d seats are left taken", s.taken)
		}
	})
}

// A client that gets no seat hears so in words, and when to come again.
func TestBusyRemoteSaysSo(t *testing.T) {
	s, clone := seeded(t)
	for i := range maxSeats {
		release, ok := s.fetching.acquire(t.Context(), fmt.Sprint(i))
		if !ok {
			t.Fatal("no seat")
		}
		defer release()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // waits for nothing
	u := &user.DefaultInfo{Name: "viewer", Groups: []string{"writ:viewers"}}
	h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.Remote.ServeHTTP(w, req.WithContext(request.WithUser(ctx, u)))
	})
	status, text := answerTo(h, u, http.MethodPost, wantPath, "application/x-git-upload-pack-request", wanting(git(t, clone, "rev-parse", "HEAD")))
	if status != http.StatusTooManyRequests || !strings.Contains(text, "try again") {
		t.Errorf("%d %q", status, text)
	}
}
