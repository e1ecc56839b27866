package members

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// openRefs are the refs of a repository in a store that runs until the test ends.
func openRefs(t *testing.T) *refs {
	t.Helper()
	s := store.New(store.Config{Dir: t.TempDir()})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-s.Ready()
	var catalog schema.Live
	reg := registry.New(registry.Config{Store: s, Catalog: &catalog, Log: slog.New(slog.DiscardHandler)})
	c := client.Local(reg, identity.System(identity.APIServer), "writ")
	if _, err := client.Create(t.Context(), c, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Name: "s0", Store: s, Client: c, Cache: reg.Cache(), Log: slog.New(slog.DiscardHandler)}
	return &refs{cfg: cfg, roll: NewRoll(cfg), repository: "cluster"}
}

func (s *refs) must(t *testing.T, want map[string]string, record bool) held {
	t.Helper()
	h, err := s.newest(t.Context())
	if err != nil || !maps.Equal(h.refs, want) || (h.refs == nil) != (want == nil) || (h.record != 0) != record {
		t.Fatalf("%+v, %v: want %v, in a record: %v", h, err, want, record)
	}
	return h
}

// before reads the refs as the version before does.
func (s *refs) before(t *testing.T) (map[string]string, error) {
	t.Helper()
	it := s.cfg.Store.View().Get(configMaps, s.key())
	if it == nil {
		t.Fatal("there is no ConfigMap: the version before would begin the repository anew")
	}
	var out map[string]string
	err := json.Unmarshal([]byte(it.Object.(*corev1.ConfigMap).Data[configMapRefs]), &out)
	return out, err
}

var one, two = map[string]string{"refs/heads/main": "1"}, map[string]string{"refs/heads/main": "2"}

// TestRefsBegin: a cluster that begins has its refs in the record, and what the
// version before looks for tells it that they are elsewhere.
func TestRefsBegin(t *testing.T) {
	s := openRefs(t)
	none := s.must(t, nil, false)
	if err := s.put(t.Context(), none, one); err != nil {
		t.Fatal(err)
	}
	was := s.must(t, one, true)
	if got, err := s.before(t); err == nil {
		t.Errorf("a server of the version before takes %v for the refs", got)
	}
	for what, stale := range map[string]held{"who has seen nothing": none, "who has seen another": {record: was.record - 1<<20}} {
		if err := s.put(t.Context(), stale, two); !errors.Is(err, store.ErrRecordChanged) {
			t.Errorf("%s writes: %v", what, err)
		}
	}
	if err := s.put(t.Context(), was, two); err != nil {
		t.Fatal(err)
	}
	s.must(t, two, true)
}

// TestRefsMove: the refs of an existing cluster move in one transaction, not past
// a push that a server of the version before has stored meanwhile; and nothing
// that happens to the ConfigMap afterwards moves a branch.
func TestRefsMove(t *testing.T) {
	s := openRefs(t)
	if err := s.putConfigMap(t.Context(), nil, `{"refs/heads/main":"1"}`); err != nil {
		t.Fatal(err)
	}
	seen := s.must(t, one, false)
	if err := s.putConfigMap(t.Context(), seen.configMap, `{"refs/heads/main":"2"}`); err != nil {
		t.Fatal(err)
	}
	if err := s.put(t.Context(), seen, seen.refs); !errors.Is(err, store.ErrRecordChanged) {
		t.Fatalf("moved over what another has stored: %v", err)
	}
	s.must(t, two, false) // as after a death before it: all is where it was
	if got, err := s.before(t); err != nil || !maps.Equal(got, two) {
		t.Fatalf("%v, %v", got, err)
	}
	uid := seen.configMap.UID
	for range 2 { // again does nothing
		if err := s.move(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h := s.must(t, two, true); h.configMap.UID != uid {
			t.Error("it is another ConfigMap")
		}
	}
	if got, err := s.before(t); err == nil {
		t.Errorf("a server of the version before takes %v for the refs", got)
	}
	for _, text := range []string{`{"refs/heads/main":"evil"}`, `{}`, ``} {
		if err := s.putConfigMap(t.Context(), s.must(t, two, true).configMap, text); err != nil {
			t.Fatal(err)
		}
		s.must(t, two, true)
	}
	if err := client.Delete[*corev1.ConfigMap](t.Context(), s.cfg.Client, s.key(), client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.must(t, two, true)
}

// TestKnowRecord: the refs stay where the version before finds them while one of
// the servers may be of it.
func TestKnowRecord(t *testing.T) {
	lease := func(name string, record bool) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: presencePrefix + name,
			Labels: map[string]string{presenceLabel: ""}, Annotations: map[string]string{presenceAddress: "10.0.0.1:6443"}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &name}}
		if record {
			l.Annotations[presenceRecord] = ""
		}
		return l
	}
	for _, c := range []struct {
		name    string
		servers string
		leases  []schema.Object
		want    bool
	}{
		{"the only one", "L", nil, true},
		{"all new", "Lff", []schema.Object{lease("s1", true), lease("s2", true)}, true},
		{"one old", "Lff", []schema.Object{lease("s1", true), lease("s2", false)}, false},
		{"one of which nothing is known", "Lff", []schema.Object{lease("s1", true)}, false},
		{"one that has not started", "Lfn", []schema.Object{lease("s1", true)}, false},
		{"one that joins, old", "Lj", []schema.Object{lease("s1", false)}, false},
	} {
		all := others(c.servers)
		all[0].Self = true
		there := NewRoll(Config{Name: "s0", Cache: client.NewFake(c.leases...).Cache()}).Presences()
		if got := knowRecord(all, there); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
