package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/writ-os/writ/schema"
)

// widgets returns the row of a custom resource as its definition has it: what
// is stored, without version, and one version that is served.
func widgets() (stored, served *schema.Resource) {
	stored = &schema.Resource{
		Group: "example.com", Kind: "Widget", ListKind: "WidgetList", Plural: "widgets", Namespaced: true,
		StoragePrefix: "example.com/widgets",
		New:           func() schema.Object { return &unstructured.Unstructured{} },
	}
	v1 := *stored
	v1.Version, v1.Storage = "v1", stored
	return stored, &v1
}

func widget(name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec":     map[string]any{"value": value, "n": int64(3)},
	}}
}

func widgetWrite(r *schema.Resource, o *unstructured.Unstructured, expect schema.ResourceVersion) Write {
	return Write{Resource: r, Key: schema.KeyOf(o), Object: o, Expect: expect}
}

func TestAddAndRemove(t *testing.T) {
	dir := t.TempDir()
	s, stop := open(t, Config{Dir: dir})
	stored, served := widgets()
	_, err := s.Txn(t.Context(), []Write{widgetWrite(served, widget("a", "1"), 0)})
	if !errors.Is(err, ErrNotKept) {
		t.Fatalf("a write before Add: %v", err)
	}
	if _, err := s.Watch(served, 0); !errors.Is(err, ErrNotKept) {
		t.Fatalf("a watch before Add: %v", err)
	}
	if n := s.Snapshot(served).Len(); n != 0 || s.View().Keeps(served) {
		t.Fatalf("%d objects before Add", n)
	}
	for range 2 { // it may be asked for again
		if err := s.Add(t.Context(), served); err != nil {
			t.Fatal(err)
		}
	}
	other := *stored
	if err := s.Add(t.Context(), &other); err == nil {
		t.Error("two resources are kept under one prefix")
	}
	w, err := s.Watch(served, s.Version())
	if err != nil {
		t.Fatal(err)
	}
	o := widget("a", "1")
	o.SetResourceVersion("5")
	items := commit(t, s, create(configMap("default", "c", "v")), widgetWrite(served, o, 0))
	if o.GetResourceVersion() != "5" {
		t.Error("the store changed the object of the write")
	}
	if items[1].Resource != stored || items[1].Version.Sub() != 1 || items[1].Object.GetResourceVersion() != items[1].Version.String() {
		t.Errorf("stored %v at %v", items[1].Resource, items[1].Version)
	}
	got, err := s.etcd.KV().Range(t.Context(), []byte("/registry/example.com/widgets/default/a"), nil, mvcc.RangeOptions{})
	want := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"default"},"spec":{"n":3,"value":"1"}}` + "\n"
	if err != nil || string(got.KVs[0].Value) != want {
		t.Errorf("etcd holds %q, %v", got.KVs, err)
	}
	if b := <-w.Events(); len(b) != 1 || b[0].Item != items[1] || string(b[0].Item.JSON()) == "" || b[0].ProtobufFrame(Added) != nil {
		t.Errorf("events %v", b)
	}
	if err := s.Remove(t.Context(), served); err != nil {
		t.Fatal(err)
	}
	if _, ok := <-w.Events(); ok || !errors.Is(w.Err(), ErrNotKept) {
		t.Errorf("the watch ends with %v", w.Err())
	}
	if it := s.Get(served, items[1].Key); it != nil {
		t.Errorf("still there: %v", it)
	}
	stop()

	// After a restart, and under a row that was made anew, it is as before.
	s, _ = open(t, Config{Dir: dir})
	_, served = widgets()
	if err := s.Add(t.Context(), served); err != nil {
		t.Fatal(err)
	}
	it := s.Get(served, items[1].Key)
	if it == nil || it.Version != items[1].Version || string(it.JSON()) != string(items[1].JSON()) {
		t.Fatalf("after a restart: %+v, want %+v", it, items[1])
	}
	if w, err = s.Watch(served, it.Version); err != nil {
		t.Fatalf("resume after the last change: %v", err)
	}
	defer w.Stop()
	if _, err := s.Watch(served, it.Version-1); !errors.Is(err, ErrExpired) {
		t.Errorf("resume before the last change: %v", err)
	}
	commit(t, s, widgetWrite(served, widget("a", "2"), it.Version))
}

// TestAddBesideWriters: while others write below its prefix, a resource is
// added and removed again and again. What is loaded and the events after it
// always make up what etcd holds.
func TestAddBesideWriters(t *testing.T) {
	s, _ := open(t, Config{})
	_, served := widgets()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := s.etcd.Txn(ctx, foreignWrites(rand.IntN(20), i)); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	for round := range 40 {
		if err := s.Add(t.Context(), served); err != nil {
			t.Fatal(err)
		}
		snap := s.Snapshot(served)
		w, err := s.Follow(served, snap.Version())
		if err != nil {
			t.Fatal(err)
		}
		state := map[schema.Key]schema.ResourceVersion{}
		for it := range snap.All() {
			state[it.Key] = it.Version
		}
		for range rand.IntN(5) {
			for _, e := range <-w.Events() {
				follow(t, state, e)
			}
		}
		upTo := w.Progress()
		for it := range s.Snapshot(served).All() {
			if it.Version <= upTo && state[it.Key] != it.Version {
				t.Fatalf("round %d: %v is %v, by the events %v", round, it.Key, it.Version, state[it.Key])
			}
		}
		compareWithEtcd(t, s, served)
		if err := s.Remove(t.Context(), served); err != nil {
			t.Fatal(err)
		}
		for b := range w.Events() { // what was in the log still comes
			for _, e := range b {
				follow(t, state, e)
			}
		}
	}
	cancel()
	wg.Wait()
}

// follow applies an event, and fails if it does not continue the state.
func follow(t *testing.T, state map[schema.Key]schema.ResourceVersion, e *Event) {
	t.Helper()
	k, had := e.Item.Key, state[e.Item.Key]
	var prev schema.ResourceVersion
	if e.Prev != nil {
		prev = e.Prev.Version
	}
	if had != prev || e.Version() <= had {
		t.Fatalf("%s of %v from %v to %v: the reader has %v", e.Type, k, prev, e.Version(), had)
	}
	if state[k] = e.Version(); e.Type == Deleted {
		delete(state, k)
	}
}

// foreignWrites is a transaction that another server makes.
func foreignWrites(i, n int) *pb.TxnRequest {
	req := &pb.TxnRequest{}
	for j := range 3 {
		key := fmt.Appendf(nil, "/registry/example.com/widgets/default/w%d", i+j)
		value, _ := encodeValue(widget(fmt.Sprintf("w%d", i+j), fmt.Sprint(n)))
		op := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value}}}
		if (i+j+n)%4 == 0 {
			op = &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}}
		}
		req.Success = append(req.Success, op)
	}
	return req
}

// compareWithEtcd holds a snapshot against etcd at the same revision.
func compareWithEtcd(t *testing.T, s *Store, r *schema.Resource) {
	t.Helper()
	snap := s.Snapshot(r)
	// etcd tells its watchers of a revision a moment before it is readable.
	for s.etcd.KV().Rev() < snap.Version().Main() {
		runtime.Gosched()
	}
	got, err := s.etcd.KV().Range(t.Context(), []byte(root+r.StoragePrefix+"/"), []byte(root+r.StoragePrefix+"0"),
		mvcc.RangeOptions{Rev: snap.Version().Main()})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.KVs) != snap.Len() {
		t.Fatalf("%d objects at %v, etcd has %d", snap.Len(), snap.Version(), len(got.KVs))
	}
	for _, kv := range got.KVs {
		_, k, _ := s.keys.Load().decode(kv.Key)
		if it := snap.Get(k); it == nil || it.Version.Main() != kv.ModRevision {
			t.Fatalf("%v is %+v, etcd has revision %d", k, it, kv.ModRevision)
		}
	}
}
