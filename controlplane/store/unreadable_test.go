package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/writ-os/writ/schema"
)

// keyring is a Sealer with keys that come and go: it seals config maps with the
// first, and opens what it has the key of.
type keyring struct {
	mu   sync.Mutex
	keys []string
	slow chan struct{} // not nil: Open waits until it is closed
}

func (k *keyring) set(keys ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = keys
}

func (k *keyring) Seal(r *schema.Resource, _ string, plain []byte) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r != configMaps || len(k.keys) == 0 {
		return plain, nil
	}
	return append([]byte("k8s:enc:test:v1:"+k.keys[0]+":"), plain...), nil
}

func (k *keyring) Open(r *schema.Resource, _ string, sealed []byte) ([]byte, bool, error) {
	k.mu.Lock()
	slow, keys := k.slow, k.keys
	k.mu.Unlock()
	if r != configMaps {
		return sealed, false, nil
	}
	if slow != nil {
		<-slow
	}
	for i, key := range keys {
		if plain, ok := bytes.CutPrefix(sealed, []byte("k8s:enc:test:v1:"+key+":")); ok {
			return plain, i > 0, nil
		}
	}
	if bytes.HasPrefix(sealed, []byte("k8s:enc:")) {
		return nil, false, fmt.Errorf("no key for %q", keyOf(sealed))
	}
	return sealed, len(keys) > 0, nil
}

// refused demands that a resource is refused, and that the sentence names what
// somebody needs to know.
func refused(t *testing.T, s *Store, words ...string) {
	t.Helper()
	_, watching := s.Watch(configMaps, s.Version())
	_, writing := s.Txn(t.Context(), []Write{{Resource: configMaps, Key: key("default", "a"), Unconditional: true}})
	for what, err := range map[string]error{"reading": s.View().Unreadable(configMaps), "watching": watching, "deleting": writing, "leading": s.Unfit()} {
		var un *UnreadableError
		if !errors.As(err, &un) {
			t.Errorf("%s: %v, want an UnreadableError", what, err)
			continue
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", what, err, w)
			}
		}
	}
	if s.IsLeader() {
		t.Error("leads with values that it cannot read")
	}
}

// A server that starts without the key of a value refuses its resource and does
// not lead; with the key it goes on, and nobody has heard of a deletion.
func TestStartWithoutKey(t *testing.T) {
	t.Parallel()
	dir, ring := t.TempDir(), &keyring{keys: []string{"k1"}}
	s, stop := open(t, Config{Dir: dir, Sealer: ring})
	was := commit(t, s, create(configMap("default", "a", "1")), create(configMap("default", "b", "2")), create(namespace("n")))
	stop()
	for _, sealer := range []Sealer{&keyring{keys: []string{"k2"}}, nil} {
		s, stop := open(t, Config{Dir: dir, Sealer: sealer})
		refused(t, s, "2 stored values of configmaps", "default/a", "k8s:enc:test:v1:k1")
		if err := s.View().Unreadable(namespaces); err != nil {
			t.Errorf("namespaces can all be read: %v", err)
		}
		commit(t, s, create(namespace("other"+fmt.Sprint(sealer == nil))))
		stop()
	}
	ring = &keyring{keys: []string{"k2"}}
	s, _ = open(t, Config{Dir: dir, Sealer: ring})
	follow, err := s.Follow(configMaps, s.Version())
	if err != nil {
		t.Fatal(err)
	}
	defer follow.Stop()
	leads := make(chan struct{})
	go func() {
		_ = s.WhileLeading(t.Context(), func(ctx context.Context) error { close(leads); <-ctx.Done(); return nil })
	}()
	ring.set("k2", "k1")
	s.Reread()
	<-leads
	for i := 0; i < 2; {
		for _, e := range <-follow.Events() {
			if i < 2 && (e.Type != Added || e.Item.Version != was[i].Version) {
				t.Errorf("event %d: %v %v at %v", i, e.Type, e.Item.Key, e.Item.Version)
			}
			i++
		}
	}
	if err := s.Unreadable(); err != nil {
		t.Error(err)
	}
	w, err := s.Watch(configMaps, s.Version())
	if err != nil {
		t.Fatal(err)
	}
	w.Stop()
}

// A value that comes while a server runs and that it cannot read leaves the
// object as it was; watches of clients end with the reason, those of the process
// hear of nothing, until it can be read.
func TestUnreadableWhileRunning(t *testing.T) {
	t.Parallel()
	ring := &keyring{keys: []string{"k1"}}
	s, _ := open(t, Config{Sealer: ring})
	commit(t, s, create(configMap("default", "a", "1")))
	client, err := s.Watch(configMaps, s.Version())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop()
	own, err := s.Follow(configMaps, s.Version())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Stop()
	_, lost := s.Lead()
	value, err := encodeValue(configMap("default", "a", "2"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.etcd.Put(t.Context(), &pb.PutRequest{Key: []byte("/registry/configmaps/default/a"), Value: append([]byte("k8s:enc:test:v1:k2:"), value...)}); err != nil {
		t.Fatal(err)
	}
	<-lost
	if _, more := <-client.Events(); more {
		t.Error("an event of what cannot be read")
	}
	var un *UnreadableError
	if !errors.As(client.Err(), &un) {
		t.Errorf("the watch ended with %v", client.Err())
	}
	if s.Get(configMaps, key("default", "a")) == nil {
		t.Error("the object was taken for deleted")
	}
	refused(t, s, "k2", "default/a")
	ring.set("k1", "k2")
	s.Reread()
	for _, e := range <-own.Events() {
		if e.Type != Modified || e.Prev == nil {
			t.Errorf("%v after %v", e.Type, e.Prev)
		}
	}
	eventually(t, time.Minute, s.Unreadable)
}

// The way out of a value that is damaged: once it is gone from etcd all is well.
func TestUnreadableIsDeleted(t *testing.T) {
	t.Parallel()
	s, _ := open(t, Config{})
	k := []byte("/registry/configmaps/default/broken")
	if _, err := s.etcd.Put(t.Context(), &pb.PutRequest{Key: k, Value: []byte("k8s\x00 not protobuf")}); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() error {
		if s.Unreadable() == nil {
			return errors.New("not noticed")
		}
		return nil
	})
	if err := s.DeleteUnreadable(t.Context(), configMaps, key("default", "other")); !errors.Is(err, ErrReadable) {
		t.Errorf("one that is not there: %v", err)
	}
	if err := s.DeleteUnreadable(t.Context(), configMaps, key("default", "broken")); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, s.Unfit)
	commit(t, s, create(configMap("default", "broken", "1")))
}

// While a key service takes its time, writes and reads of others go on as far as
// they need no event: the store's lock is free.
func TestSlowKeyService(t *testing.T) {
	t.Parallel()
	ring := &keyring{keys: []string{"k1"}, slow: make(chan struct{})}
	s, _ := open(t, Config{Sealer: ring})
	value, err := encodeValue(configMap("default", "a", "2"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.etcd.Put(t.Context(), &pb.PutRequest{Key: []byte("/registry/configmaps/default/a"), Value: append([]byte("k8s:enc:test:v1:k1:"), value...)}); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 { // some of them while it is decrypted
		s.enter([]string{"x"}, []*pendingWrite{{}})
		if i%100 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	close(ring.slow)
	eventually(t, time.Minute, func() error {
		if s.Get(configMaps, key("default", "a")) == nil {
			return errors.New("not there yet")
		}
		return nil
	})
}

// A server without the key hands the lead to one that has it, and takes nothing
// from the others.
func TestUnreadableOfSeveral(t *testing.T) {
	t.Parallel()
	rings := []*keyring{}
	c := newCluster(t, 3, func(cfg *Config) {
		ring := &keyring{keys: []string{"k1"}}
		rings = append(rings, ring)
		cfg.Sealer = ring
	})
	old := c.leader()
	put(t, c.runs[old].Store, "a", "1")
	writer := c.others(old)[0]
	rings[writer].set("k2", "k1") // first, on one server alone: what must not be done
	put(t, c.runs[writer].Store, "a", "2")
	eventually(t, time.Minute, func() error {
		for _, i := range c.others(writer) {
			if c.runs[i].Unreadable() == nil {
				return fmt.Errorf("member %d has not noticed", i)
			}
		}
		if !c.runs[writer].IsLeader() {
			return errors.New("who can read does not lead")
		}
		return nil
	})
	for i, r := range c.runs {
		if r.Get(configMaps, key("default", "a")) == nil {
			t.Errorf("member %d has lost the object", i)
		}
	}
	for i := range rings {
		rings[i].set("k2", "k1")
		c.runs[i].Reread()
	}
	for i := range rings {
		eventually(t, time.Minute, c.runs[i].Unreadable)
		if got := value(c.runs[i].Store, "a"); got != "2" {
			t.Errorf("member %d reads %q", i, got)
		}
	}
}

// What lies under an old key, or in plain, is stored under the newest: by whoever
// leads, with no change but that of the version.
func TestReseal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, stop := open(t, Config{Dir: dir})
	const n = 700 // more than a page
	commit(t, s, manyConfigMaps(n)...)
	stop()
	ring := &keyring{keys: []string{"k1"}}
	s, stop = open(t, Config{Dir: dir, Sealer: ring})
	under := func(s *Store, name string) func() error {
		return func() error {
			r, err := s.etcd.Range(t.Context(), &pb.RangeRequest{Key: []byte(root + "configmaps/"), RangeEnd: []byte(root + "configmaps0")})
			if err != nil {
				return err
			}
			have := 0
			for _, kv := range r.Kvs {
				if bytes.HasPrefix(kv.Value, []byte("k8s:enc:test:v1:"+name+":")) {
					have++
				}
			}
			if have != n || len(r.Kvs) != n {
				return fmt.Errorf("%d of %d values are under %s", have, len(r.Kvs), name)
			}
			return nil
		}
	}
	eventually(t, time.Minute, func() error { // it is cut off in the middle, and goes on
		if under(s, "k1")() == nil || strings.HasPrefix(under(s, "k1")().Error(), "0 ") {
			return errors.New("not begun")
		}
		return nil
	})
	stop()
	s, _ = open(t, Config{Dir: dir, Sealer: ring})
	eventually(t, time.Minute, under(s, "k1"))
	ring.set("k2", "k1")
	s.Reread()
	eventually(t, time.Minute, under(s, "k2"))
	ring.set("k2")
	s.Reread()
	if err := s.Unreadable(); err != nil || s.Snapshot(configMaps).Len() != n {
		t.Errorf("%d objects, %v", s.Snapshot(configMaps).Len(), err)
	}
}
