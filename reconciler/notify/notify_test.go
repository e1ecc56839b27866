package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// receiver is the other side, in memory.
type receiver struct {
	mu     sync.Mutex
	got    []string // "host event" of what arrived
	times  []time.Time
	auth   []string
	answer func(req *http.Request, try int) *http.Response // nil: 200
	tries  int
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	r.times = append(r.times, time.Now())
	if r.answer != nil {
		if res := r.answer(req, r.tries); res == nil {
			return nil, errors.New("connection refused")
		} else if res.StatusCode != http.StatusOK {
			return res, nil
		}
	}
	var e struct{ Event, SHA, State string }
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, err
	}
	what := e.Event
	if e.State != "" {
		what, e.SHA = e.State, req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
	}
	r.got = append(r.got, fmt.Sprintf("%s %s %s", req.URL.Host, e.SHA[:2], strings.TrimPrefix(what, "commit.")))
	r.auth = append(r.auth, req.Header.Get("Authorization"))
	return answer(http.StatusOK, nil), nil
}

func answer(status int, h http.Header) *http.Response {
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("an answer")), ProtoMajor: 1, ProtoMinor: 1}
}

func (r *receiver) heard() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.got, ", ")
}

func repository(n ...v1alpha1.Notification) *v1alpha1.Repository {
	return &v1alpha1.Repository{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Repository"}, ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: v1alpha1.RepositorySpec{URL: "https://git.example.org/a/b", Notifications: n}}
}

func hook(name string) v1alpha1.Notification {
	return v1alpha1.Notification{Name: name, Type: "webhook", URL: "https://" + name + ".example.org/x"}
}

// running starts a notifier; stop ends it and waits.
func running(t *testing.T, c *client.Fake, r http.RoundTripper, more ...func(*Config)) (stop func()) {
	t.Helper()
	cfg := Config{Client: c, Transport: r}
	for _, m := range more {
		m(&cfg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	n := New(cfg)
	go func() { done <- n.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// move writes the status of a commit, as the reconciler does: from a copy that
// knows no annotations.
func move(t *testing.T, c *client.Fake, commit *v1alpha1.Commit) {
	t.Helper()
	if _, err := client.UpdateStatus(t.Context(), c, commit); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, r *receiver, want string) {
	t.Helper()
	synctest.Wait()
	if got := r.heard(); got != want {
		t.Errorf("heard %q\n want %q", got, want)
	}
}

func TestPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := &receiver{}, client.NewFake(repository(hook("a")))
		defer running(t, c, r)()
		synctest.Wait()
		c.Put(commit(1, pending))
		expect(t, r, "")
		for _, p := range []v1alpha1.CommitPhase{applied, applied, healthy} {
			move(t, c, commit(1, p))
			synctest.Wait()
		}
		expect(t, r, "a.example.org b0 applied, a.example.org b0 healthy")
		c.Put(commit(2, pending))
		move(t, c, refused(1))
		synctest.Wait()
		degraded := commit(2, healthy)
		move(t, c, degraded)
		synctest.Wait()
		degraded.Status.Reason = "Degraded"
		move(t, c, degraded)
		expect(t, r, "a.example.org b0 applied, a.example.org b0 healthy, a.example.org b0 failed, a.example.org c0 healthy")
	})
}

// A receiver that is away: the pauses grow, Retry-After is kept to, the newest
// state of a commit is told once it is back, and nobody waits.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := &receiver{}, client.NewFake(repository(hook("a")))
		var logs bytes.Buffer
		reg := prometheus.NewRegistry()
		r.answer = func(_ *http.Request, try int) *http.Response {
			switch {
			case try < 5:
				return nil
			case try == 5:
				return answer(http.StatusServiceUnavailable, nil)
			case try == 6:
				return answer(http.StatusTooManyRequests, http.Header{"Retry-After": {"600"}})
			}
			return answer(http.StatusOK, nil)
		}
		defer running(t, c, r, func(cfg *Config) {
			cfg.Log, cfg.Metrics = slog.New(slog.NewTextHandler(&logs, nil)), reg
		})()
		synctest.Wait()
		c.Put(commit(1, pending))
		move(t, c, commit(1, applied))
		c.Put(commit(2, applied))
		time.Sleep(20 * time.Second)
		move(t, c, commit(1, superseded))
		time.Sleep(time.Hour)
		expect(t, r, "a.example.org b0 superseded, a.example.org c0 applied")
		var gaps []time.Duration
		for i := 1; i < 7; i++ {
			gaps = append(gaps, r.times[i].Sub(r.times[i-1]))
		}
		for i, most := range []time.Duration{1, 2, 4, 8, 16} {
			if g := gaps[i]; g < most*time.Second/2 || g > most*time.Second {
				t.Errorf("pause %d is %v, want %v to %v", i, g, most*time.Second/2, most*time.Second)
			}
		}
		if gaps[5] != 10*time.Minute {
			t.Errorf("the receiver asked for 10m, the pause is %v", gaps[5])
		}
		if n := strings.Count(logs.String(), "not sent yet"); n != 1 {
			t.Errorf("%d lines in the log of a receiver that is away:\n%s", n, logs.String())
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP writ_notifications_queued Messages that wait to be sent.
# TYPE writ_notifications_queued gauge
writ_notifications_queued{notification="a",repository="shop",type="webhook"} 0
# HELP writ_notifications_total Calls that tell of commits, by what came of them: sent, retried, dropped.
# TYPE writ_notifications_total counter
writ_notifications_total{notification="a",repository="shop",result="retried",type="webhook"} 6
writ_notifications_total{notification="a",repository="shop",result="sent",type="webhook"} 2
`)); err != nil {
			t.Error(err)
		}
	})
}

// A restart tells what was not told and nothing that was, whatever moment it
// comes at.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := &receiver{}, client.NewFake(repository(hook("a"), hook("b")))
		r.answer = func(req *http.Request, _ int) *http.Response {
			if req.URL.Host == "b.example.org" && len(r.got) < 3 {
				return nil
			}
			return answer(http.StatusOK, nil)
		}
		stop := running(t, c, r)
		synctest.Wait()
		c.Put(commit(1, pending))
		move(t, c, commit(1, applied))
		expect(t, r, "a.example.org b0 applied")
		stop()
		move(t, c, commit(1, healthy)) // while nobody looks
		c.Put(commit(2, pending))
		stop = running(t, c, r)
		expect(t, r, "a.example.org b0 applied, a.example.org b0 healthy")
		move(t, c, commit(2, failed))
		synctest.Wait()
		time.Sleep(time.Hour)
		expect(t, r, "a.example.org b0 applied, a.example.org b0 healthy, a.example.org c0 failed, b.example.org b0 healthy, b.example.org c0 failed")
		for range 3 {
			stop()
			stop = running(t, c, r)
			time.Sleep(time.Hour)
		}
		stop()
		expect(t, r, "a.example.org b0 applied, a.example.org b0 healthy, a.example.org c0 failed, b.example.org b0 healthy, b.example.org c0 failed")
	})
}

// Who is new hears of the commit that is in force, not of the history; who goes
// and comes back has missed what was between.
func TestNewReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		c := client.NewFake(repository(), commit(1, healthy), commit(2, superseded), commit(3, healthy))
		defer running(t, c, r)()
		expect(t, r, "")
		declare := func(n ...v1alpha1.Notification) {
			live, _ := client.Cached[*v1alpha1.Repository](c.Cache(), schema.Key{Name: "shop"})
			live = live.DeepCopy()
			live.Spec.Notifications = n
			c.Put(live)
			synctest.Wait()
		}
		declare(hook("a"))
		expect(t, r, "a.example.org d0 healthy")
		declare()
		c.Put(commit(4, healthy))
		c.Put(commit(5, healthy))
		declare(hook("a"), hook("b"))
		time.Sleep(time.Second)
		for _, want := range []string{"a.example.org f0 healthy", "b.example.org f0 healthy"} {
			if got := r.heard(); !strings.Contains(got, want) || strings.Count(got, ",") != 2 {
				t.Errorf("heard %q, want %q", got, want)
			}
		}
		// Another URL is no new receiver: it is told what comes.
		moved := hook("a")
		moved.URL = "https://c.example.org"
		declare(moved, hook("b"))
		c.Put(commit(6, failed))
		time.Sleep(time.Second)
		if got := r.heard(); !strings.Contains(got, "c.example.org a1 failed") || strings.Count(got, "c.example.org") != 1 {
			t.Errorf("heard %q", got)
		}
	})
}

// Every commit that a forge was told of ends, even when it is taken away.
func TestForgeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := v1alpha1.Notification{Name: "f", Type: "github", Secret: "flux/forge", Phases: []v1alpha1.CommitPhase{pending}}
		r, c := &receiver{}, client.NewFake(repository(n), secret("flux", "forge", map[string]string{"token": "one"}))
		defer running(t, c, r)()
		synctest.Wait()
		for i := 1; i < 5; i++ {
			c.Put(commit(i, pending))
		}
		synctest.Wait()
		c.Put(secret("flux", "forge", map[string]string{"token": "two"}))
		move(t, c, commit(1, healthy))
		synctest.Wait()
		move(t, c, commit(2, superseded))
		synctest.Wait()
		move(t, c, commit(3, failed))
		synctest.Wait()
		if err := client.Delete[*v1alpha1.Commit](t.Context(), c, schema.KeyOf(commit(4, pending)), client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := r.heard()
		for _, want := range []string{"b0 success", "c0 error", "d0 failure", "e0 error"} {
			if !strings.Contains(got, "git.example.org "+want) {
				t.Errorf("%q is not in %q", want, got)
			}
		}
		if n := strings.Count(got, "pending"); n != 4 || len(r.got) != 8 {
			t.Errorf("heard %q", got)
		}
		if r.auth[0] != "Bearer one" || r.auth[7] != "Bearer two" {
			t.Errorf("signed in with %q", r.auth)
		}
	})
}

// Commits without an object, as those between two polls, end as the one that
// they came in with.
func TestBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := v1alpha1.Notification{Name: "f", Type: "gitea", Secret: "flux/forge"}
		r, c := &receiver{}, client.NewFake(repository(n, hook("chat")), secret("flux", "forge", map[string]string{"token": "one"}), commit(1, healthy))
		var asked []string
		between := func(repository, old, new string) ([]string, error) {
			asked = append(asked, repository+" "+old[:2]+" "+new[:2])
			return []string{"99" + sha[2:], "88" + sha[2:], commit(1, "").Spec.SHA}, nil
		}
		defer running(t, c, r, func(cfg *Config) { cfg.Between = between })()
		synctest.Wait()
		c.Put(commit(2, applied))
		synctest.Wait()
		move(t, c, commit(2, healthy))
		synctest.Wait()
		got := r.heard()
		if want := "git.example.org 99 success, git.example.org 88 success, git.example.org c0 success"; !strings.Contains(strings.ReplaceAll(got, ", chat.example.org c0 healthy", ""), want) {
			t.Errorf("heard %q, want %q", got, want)
		}
		if strings.Count(got, "99 ") != 1 || len(asked) != 1 || asked[0] != "shop b0 c0" {
			t.Errorf("heard %q, asked %q", got, asked)
		}
	})
}

// What one commit is refused for does not hold up the next. A Secret that
// comes late is in time; after that people are told, without the secret.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, never := hook("late"), hook("never")
		late.Secret = "default/late"
		never.URL = "https://never.example.org/s3cret"
		r, c := &receiver{}, client.NewFake(repository(late, never))
		r.answer = func(req *http.Request, _ int) *http.Response {
			if req.URL.Host == "never.example.org" && strings.Contains(req.Header.Get(EventHeader), "failed") {
				return answer(http.StatusNotFound, nil)
			}
			return answer(http.StatusOK, nil)
		}
		var logs bytes.Buffer
		defer running(t, c, r, func(cfg *Config) { cfg.Log = slog.New(slog.NewTextHandler(&logs, nil)) })()
		synctest.Wait()
		c.Put(commit(1, failed))
		c.Put(commit(2, healthy))
		expect(t, r, "never.example.org c0 healthy")
		c.Put(secret("default", "late", map[string]string{"token": "x"}))
		time.Sleep(time.Minute)
		for _, want := range []string{"never.example.org c0 healthy", "late.example.org b0 failed", "late.example.org c0 healthy"} {
			if got := r.heard(); !strings.Contains(got, want) || strings.Count(got, ",") != 2 {
				t.Errorf("heard %q, want %q", got, want)
			}
		}
		time.Sleep(time.Hour)
		events := client.CachedList[*corev1.Event](c.Cache(), "default")
		if len(events) != 1 || events[0].Reason != "NotificationFailed" || !strings.Contains(events[0].Message, "404") {
			t.Fatalf("events: %+v", events)
		}
		if all := events[0].Message + logs.String(); strings.Contains(all, "s3cret") {
			t.Errorf("told the secret: %s", all)
		}
	})
}

// A flood against a receiver that is away is bounded, and the newest stay.
func TestFlood(t *testing.T) {
	q := newQueue(hook("a"), 0)
	var lost int
	for i := range 3 * maxQueued {
		c := commit(1, applied)
		c.Name = fmt.Sprint(i)
		for _, p := range []v1alpha1.CommitPhase{applied, healthy} {
			c.Status.Phase = p
			if q.put(*message(c), epoch) != nil {
				lost++
			}
		}
	}
	if q.len() != maxQueued || lost != 2*maxQueued {
		t.Fatalf("%d wait, %d lost", q.len(), lost)
	}
	for i := range maxQueued {
		it, _ := q.next(epoch)
		if it.Commit.Name != fmt.Sprint(2*maxQueued+i) || it.Mark.Phase != healthy {
			t.Fatalf("%d: %s %v", i, it.Commit.Name, it.Mark)
		}
		q.settle(it, outcome{}, epoch)
	}
	if it, _ := q.next(epoch); it != nil {
		t.Errorf("left: %+v", it)
	}
}

// A state that comes while an older one is under way is not lost.
func TestReplacedInFlight(t *testing.T) {
	q := newQueue(hook("a"), 0)
	q.put(*message(commit(1, applied)), epoch)
	it, _ := q.next(epoch)
	q.put(*message(commit(1, healthy)), epoch)
	if v := q.settle(it, outcome{}, epoch); v != arrived {
		t.Fatal(v)
	}
	if it, _ = q.next(epoch); it == nil || it.Mark.Phase != healthy {
		t.Fatalf("next is %+v", it)
	}
	old := epoch.Add(longestEffort)
	if v := q.settle(it, outcome{err: errors.New("down")}, old); v != dropped || q.len() != 0 {
		t.Errorf("old news: %v, %d wait", v, q.len())
	}
}
