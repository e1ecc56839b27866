package update

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/image/slot/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// computer is a simulated machine with an agent on it that reboots for real.
type computer struct {
	w       *world
	machine *sim.Machine
	dir     string
	keys    bundle.Keys
	strict  bool // takes no image without a signature
	source  *source
	// well says why the running version is not.
	well func(version string) error
	// asked is that of Config; held is how often its agents were held back.
	asked func(time.Duration) time.Duration
	held  uint64

	versions map[string]*sim.Version
}

// source is where bundles come from: a handler without a network, because a
// bubble of synctest knows none.
type source struct {
	mu      sync.Mutex
	files   map[string][]byte
	handler http.Handler // instead, where it is set
	asked   int
}

func (s *source) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked++
	h := s.handler
	b, ok := s.files[r.URL.Path]
	s.mu.Unlock()
	switch {
	case h != nil:
	case !ok:
		h = http.NotFoundHandler()
	default:
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
		})
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec.Result(), nil
}

func (s *source) serve(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = h
}

func (s *source) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func newComputer(w *world) *computer {
	c := &computer{w: w, dir: w.t.TempDir(), source: &source{files: map[string][]byte{}}, versions: map[string]*sim.Version{}}
	c.well = func(version string) error {
		for name, broken := range w.broken {
			if broken && w.images[name].Version == version {
				return errors.New("the API server does not answer")
			}
		}
		return nil
	}
	for _, n := range []string{"4", "5", "6"} {
		c.publish("v"+n, n+".0.0")
	}
	m, err := sim.New(c.versions["4.0.0"])
	if err != nil {
		w.t.Fatal(err)
	}
	c.machine = m
	return c
}

// publish offers a version.
func (c *computer) publish(name, version string) []byte {
	v, err := sim.NewVersion(version)
	if err != nil {
		c.w.t.Fatal(err)
	}
	b, err := v.Bundle(nil)
	if err != nil {
		c.w.t.Fatal(err)
	}
	c.versions[version] = v
	c.offer(name, version, b)
	return b
}

func (c *computer) offer(name, version string, b []byte) {
	sum := sha256.Sum256(b)
	c.source.mu.Lock()
	c.source.files["/"+name] = b
	c.source.mu.Unlock()
	c.w.images[name] = Image{Name: name, Version: version, URL: "https://images.example.org/" + name + "?token=secret",
		Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(b)), Arch: "amd64"}
}

// life boots the machine, and boots it again whenever its agent says so.
func (c *computer) life(ctx context.Context) error {
	for ctx.Err() == nil {
		booted, err := c.machine.Boot()
		if err != nil {
			return err
		}
		if err := c.up(ctx, c.machine.Slots(booted)); err != nil {
			return err
		}
		sleep(ctx, 20*time.Second)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// up runs the agent until it reboots.
func (c *computer) up(ctx context.Context, s *slot.Slots) error {
	st, err := s.State()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	version := st.Current().Version
	u := New(Config{
		NodeName: "n1", Client: c.w.api, Cache: c.w.api.Cache(), Images: c.w.images, Slots: s, Dir: c.dir, Keys: c.keys, Unsigned: !c.strict, Arch: "amd64",
		HTTP: &http.Client{Transport: c.source}, Boot: time.Now(),
		Healthy: func(context.Context) error { return c.well(version) },
		Reboot:  func(context.Context, string) error { cancel(); return nil },
		asked:   c.asked,
	})
	err = u.Run(ctx)
	c.held += u.Held()
	return err
}

func (c *computer) fine(context.Context) error { return nil }

func start(w *world) *computer {
	c := newComputer(w)
	c.bounds(0, 0)
	run(w.t, c.life)
	return c
}

// bounds sees, once its agents have ended, how often they were held back.
func (c *computer) bounds(least, most uint64) {
	c.w.t.Cleanup(func() {
		if c.held < least || c.held > most {
			c.w.t.Errorf("the loop was held back %d times, want %d to %d", c.held, least, most)
		}
	})
}

func TestUpdater(t *testing.T) {
	suite(t, func(w *world) { start(w) })
}

// entries are the names that the loader sees, and staged ones.
func (c *computer) entries() string {
	names, err := c.machine.ESP.List()
	if err != nil {
		c.w.t.Fatal(err)
	}
	return fmt.Sprint(names)
}
