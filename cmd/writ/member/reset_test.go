package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/ci/freeport"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/store"
)

// three are servers that are one cluster, as far as their stores go.
type three struct {
	*testing.T
	dirs    []string
	members []*store.Members
	stop    []func()
}

func startThree(t *testing.T) *three {
	t.Helper()
	c := &three{T: t}
	initial := map[string]string{}
	keys := t.TempDir()
	authority, err := pki.OpenPeers(pki.Config{Dir: keys})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		at := freeport.Local(t)
		name, dir := fmt.Sprintf("s%d", i+1), t.TempDir()
		pair, err := authority.IssuePeer(pki.Serving{Name: name, Hosts: []string{"127.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		ca, err := os.ReadFile(filepath.Join(keys, "peer-ca.crt"))
		if err := errors.Join(err, os.Mkdir(filepath.Join(dir, "pki"), 0o700), (&State{Name: name}).Write(dir)); err != nil {
			t.Fatal(err)
		}
		for file, data := range map[string][]byte{"peer.crt": pair.CertPEM, "peer.key": pair.KeyPEM, "peer-ca.crt": ca} {
			if err := os.WriteFile(filepath.Join(dir, "pki", file), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		initial[name] = "https://" + at
		c.dirs, c.stop = append(c.dirs, dir), append(c.stop, nil)
		c.members = append(c.members, &store.Members{Name: name, Listen: at, URL: initial[name], Initial: initial, TLS: c.tls(i)})
	}
	var stores []*store.Store
	for i := range 3 {
		stores = append(stores, c.start(i))
	}
	for _, s := range stores {
		c.ready(s)
		c.eventually(func() error { // each knows the names of all
			all, err := s.Members(t.Context())
			for _, m := range all {
				if m.Name == "" {
					err = fmt.Errorf("%v has no name yet", m.ID)
				}
			}
			return err
		})
	}
	return c
}

func (c *three) tls(i int) store.PeerTLS {
	at := func(name string) string { return filepath.Join(c.dirs[i], "pki", name) }
	return store.PeerTLS{CertFile: at("peer.crt"), KeyFile: at("peer.key"), CAFile: at("peer-ca.crt")}
}

func (c *three) start(i int) *store.Store {
	s := store.New(store.Config{Dir: filepath.Join(c.dirs[i], "store"), Tick: 30 * time.Millisecond, Members: c.members[i], Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	c.stop[i] = func() { cancel(); <-done }
	c.Cleanup(c.stop[i])
	return s
}

func (c *three) ready(s *store.Store) {
	c.Helper()
	select {
	case <-s.Ready():
	case <-time.After(time.Minute):
		c.Fatal("a store is not ready")
	}
}

func (c *three) eventually(f func() error) {
	c.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	c.Fatal(err)
}

func (c *three) reset(i int, confirm func(Loss) error) (Loss, error) {
	return (&Reset{DataDir: c.dirs[i], Ask: c.tls(i).Ask, Confirm: confirm, Now: time.Now(), Log: slog.New(slog.DiscardHandler)}).Run(c.Context())
}

// TestReset: while most of the servers live, none of the others goes on alone. When
// most are gone the one that is left does, when it is told to, once.
func TestReset(t *testing.T) {
	c := startThree(t)
	no := errors.New("no")
	refuse := func(Loss) error { return no }
	c.stop[0]()
	if _, err := c.reset(0, refuse); err == nil || !strings.Contains(err.Error(), "most of the servers are there") {
		t.Errorf("beside two that are in step: %v", err)
	}
	c.stop[1]()
	var asked Loss
	if _, err := c.reset(0, func(l Loss) error { asked = l; return no }); !errors.Is(err, no) {
		t.Errorf("refused by who was asked: %v", err)
	}
	text := asked.Text()
	if len(asked.Dropped) != 2 || asked.Dropped[0].Answers || !asked.Dropped[1].Answers || !strings.Contains(text, "dropped  s2  "+c.members[1].URL+"  does not answer") ||
		!strings.Contains(text, "dropped  s3  "+c.members[2].URL+"  runs, without most of the others") || !strings.HasPrefix(text, "s1 becomes the only server") {
		t.Errorf("%+v\n%s", asked, text)
	}
	if all, err := store.ReadMembers(filepath.Join(c.dirs[0], "store")); err != nil || len(all) != 3 {
		t.Errorf("after a refusal: %+v, %v", all, err)
	}
	loss, err := c.reset(0, func(Loss) error { return nil })
	if err != nil || loss.Name != "s1" || len(loss.Dropped) != 2 {
		t.Fatalf("%+v, %v", loss, err)
	}
	if all, err := store.ReadMembers(loss.Before); err != nil || len(all) != 3 {
		t.Errorf("what was there: %+v, %v", all, err)
	}
	if again, err := c.reset(0, refuse); err != nil || len(again.Dropped) != 0 || again.Before != "" {
		t.Errorf("again: %+v, %v", again, err)
	}
	c.members[0].Initial = nil
	ordered := Reset{DataDir: c.dirs[0], Ask: c.tls(0).Ask, Confirm: refuse, Log: slog.New(slog.DiscardHandler)}
	if err := Order(c.dirs[0]); err != nil {
		t.Fatal(err)
	}
	for range 2 { // with an order, and without one
		if err := ordered.Ordered(t.Context()); err != nil {
			t.Errorf("ordered where there is nothing to do: %v", err)
		}
		if _, err := os.Stat(filepath.Join(c.dirs[0], orderFile)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the order is still there: %v", err)
		}
	}
	if err := Order(c.dirs[1]); err != nil {
		t.Fatal(err)
	}
	// An order is carried out, or forgotten where it must not be.
	ordered = Reset{DataDir: c.dirs[1], Ask: func(context.Context, string) (bool, error) { return true, nil }, Now: time.Now(), Log: slog.New(slog.DiscardHandler)}
	if err := ordered.Ordered(t.Context()); err != nil {
		t.Error(err)
	}
	if all, err := store.ReadMembers(filepath.Join(c.dirs[1], "store")); err != nil || len(all) != 3 {
		t.Errorf("ordered beside servers that are in step: %+v, %v", all, err)
	}
	if err := Order(c.dirs[1]); err != nil {
		t.Fatal(err)
	}
	ordered.Ask, ordered.Confirm = c.tls(1).Ask, func(Loss) error { return nil }
	if err := ordered.Ordered(t.Context()); err != nil {
		t.Error(err)
	}
	if all, err := store.ReadMembers(filepath.Join(c.dirs[1], "store")); err != nil || len(all) != 1 {
		t.Errorf("ordered: %+v, %v", all, err)
	}
	s := c.start(0)
	c.ready(s)
	if all, err := s.Members(t.Context()); err != nil || len(all) != 1 || !s.IsLeader() {
		t.Errorf("%+v, leads: %v, %v", all, s.IsLeader(), err)
	}
	if again, err := c.reset(0, refuse); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("beside a store that runs: %+v, %v", again, err)
	}
	if _, err := (&Reset{DataDir: t.TempDir()}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no store of a server") {
		t.Errorf("without data: %v", err)
	}
}
