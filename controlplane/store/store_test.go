package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/writ-os/writ/schema"
)

func key(ns, name string) schema.Key { return schema.Key{Namespace: ns, Name: name} }

// versions is what a snapshot holds, by key.
func versions(s *Store, r *schema.Resource) map[schema.Key]schema.ResourceVersion {
	m := map[schema.Key]schema.ResourceVersion{}
	for it := range s.Snapshot(r).All() {
		m[it.Key] = it.Version
	}
	return m
}

func TestTxnIsOneRevision(t *testing.T) {
	s, _ := open(t, Config{})
	items := commit(t, s, create(namespace("a")), create(configMap("a", "one", "1")), create(configMap("a", "two", "2")))
	for i, it := range items {
		want := schema.NewResourceVersion(items[0].Version.Main(), int64(i))
		if it.Version != want {
			t.Errorf("item %d has version %v, want %v", i, it.Version, want)
		}
		if it.Object.GetResourceVersion() != want.String() {
			t.Errorf("object %d says %q, want %v", i, it.Object.GetResourceVersion(), want)
		}
		if got := s.Get(it.Resource, it.Key); got != it {
			t.Errorf("item %d: Get returns another item than Txn", i)
		}
	}
	if s.Version() != items[2].Version {
		t.Errorf("version is %v, want that of the last write %v", s.Version(), items[2].Version)
	}
}

func TestPreconditions(t *testing.T) {
	s, _ := open(t, Config{})
	a := commit(t, s, create(configMap("default", "a", "1")))[0]
	b := commit(t, s, create(configMap("default", "b", "1")))[0]
	for _, tt := range []struct {
		name  string
		write []Write
		index int // of the conflict
	}{
		{"create of what exists", []Write{create(configMap("default", "new", "1")), create(configMap("default", "a", "2"))}, 1},
		{"update of an old state", []Write{{Resource: configMaps, Key: a.Key, Object: configMap("default", "a", "2"), Expect: a.Version - 1<<20}}, 0},
		{"delete of an old state", []Write{
			{Resource: configMaps, Key: b.Key, Expect: b.Version},
			{Resource: configMaps, Key: a.Key, Expect: b.Version}}, 1},
		{"update of what does not exist", []Write{{Resource: configMaps, Key: key("default", "none"), Object: configMap("default", "none", "2"), Expect: a.Version}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := versions(s, configMaps)
			_, err := s.Txn(t.Context(), tt.write)
			var c *ConflictError
			if !errors.As(err, &c) || c.Index != tt.index {
				t.Fatalf("got %v, want a conflict at %d", err, tt.index)
			}
			if after := versions(s, configMaps); len(after) != len(before) || after[a.Key] != a.Version || after[b.Key] != b.Version {
				t.Errorf("a refused transaction changed something: %v", after)
			}
		})
	}
	commit(t, s, Write{Resource: configMaps, Key: a.Key, Object: configMap("default", "a", "2"), Unconditional: true})
	gone := commit(t, s, Write{Resource: configMaps, Key: a.Key, Unconditional: true}, Write{Resource: configMaps, Key: key("default", "none"), Unconditional: true})
	if gone[0] == nil || gone[0].Version != s.Version() || gone[1] != nil {
		t.Errorf("deleted %+v, want the last state of the one that existed", gone)
	}
}

func TestBadWrites(t *testing.T) {
	s, _ := open(t, Config{MaxTxnWrites: 4, MaxTxnBytes: 10_000})
	large := configMap("default", "large", strings.Repeat("x", 10_000))
	for _, tt := range []struct {
		name, want string
		write      []Write
	}{
		{"twice", "written twice", []Write{create(configMap("default", "a", "1")), create(configMap("default", "a", "2"))}},
		{"no namespace", "not a key", []Write{{Resource: configMaps, Key: key("", "a"), Object: configMap("", "a", "")}}},
		{"namespace on a cluster object", "not a key", []Write{{Resource: namespaces, Key: key("a", "a"), Object: namespace("a")}}},
		{"slash", "not a key", []Write{{Resource: configMaps, Key: key("a", "b/c"), Object: configMap("a", "b/c", "")}}},
		{"other name", "is named", []Write{{Resource: configMaps, Key: key("default", "b"), Object: configMap("default", "a", "")}}},
		{"too many", "at most 4", manyConfigMaps(5)},
		{"too large", "too large: at most 0.0 MiB", []Write{create(large)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := s.Txn(t.Context(), tt.write); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if n := s.Snapshot(configMaps).Len(); n != 0 {
		t.Errorf("%d objects were stored", n)
	}
}

func TestRestartKeepsVersions(t *testing.T) {
	dir := t.TempDir()
	s, stop := open(t, Config{Dir: dir})
	commit(t, s, manyConfigMaps(300)...)
	items := commit(t, s, create(configMap("default", "one", "1")), create(configMap("default", "two", "2")), create(configMap("other", "three", "2")))
	// Of one transaction: change the first, delete the third, keep the second.
	last := commit(t, s,
		Write{Resource: configMaps, Key: items[0].Key, Expect: items[0].Version, Object: configMap("default", "one", "1b")},
		Write{Resource: configMaps, Key: items[2].Key, Expect: items[2].Version},
	)
	want, version := versions(s, configMaps), s.Version()
	stop()

	s, stop = open(t, Config{Dir: dir})
	compare := func() {
		t.Helper()
		if got := s.Version(); got != version {
			t.Errorf("version after restart is %v, was %v", got, version)
		}
		got := versions(s, configMaps)
		if len(got) != len(want) {
			t.Errorf("%d objects after restart, were %d", len(got), len(want))
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%v: version %v after restart, was %v", k, got[k], v)
			}
		}
	}
	compare()
	if _, err := s.Watch(configMaps, last[1].Version); err != nil {
		t.Errorf("watch from the last change: %v", err)
	}
	if _, err := s.Watch(configMaps, last[0].Version); !errors.Is(err, ErrExpired) {
		t.Errorf("watch from before the last change: %v, want ErrExpired", err)
	}
	if _, err := s.Watch(pods, 1); err == nil {
		t.Error("a watch may begin in what was not seen")
	}

	// Compaction drops the history, not the versions.
	if err := s.compact(t.Context(), s.Version().Main()); err != nil {
		t.Fatal(err)
	}
	stop()
	s, _ = open(t, Config{Dir: dir})
	compare()
}

func TestUnreadableDataIsKept(t *testing.T) {
	dir := t.TempDir()
	s, stop := open(t, Config{Dir: dir})
	commit(t, s, create(configMap("default", "good", "1")))
	for k, v := range map[string]string{
		"/registry/configmaps/default/broken":      "k8s\x00 not protobuf",
		"/registry/example.com/widgets/default/w1": `{"kind":"Widget"}`,
		"/registry/configmaps/no-namespace":        "x",
	} {
		if _, err := s.etcd.Put(t.Context(), &pb.PutRequest{Key: []byte(k), Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	s, _ = open(t, Config{Dir: dir})
	if err := s.View().Unreadable(configMaps); err == nil || !strings.Contains(err.Error(), "default/broken") {
		t.Errorf("one of the config maps cannot be read: %v", err)
	}
	r, err := s.etcd.Range(t.Context(), &pb.RangeRequest{Key: []byte(root), RangeEnd: []byte(rootEnd)})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Kvs) != 4 {
		t.Errorf("etcd holds %d keys, want all 4", len(r.Kvs))
	}
	_, err = s.Txn(t.Context(), []Write{create(configMap("default", "broken", "1"))})
	var un *UnreadableError
	if !errors.As(err, &un) {
		t.Errorf("create over an unreadable value: %v, want that it is unreadable", err)
	}
}

func TestIndexes(t *testing.T) {
	s, _ := open(t, Config{})
	free := pod("a", "p4", "", "")
	free.OwnerReferences = nil
	commit(t, s, create(free), create(pod("a", "p1", "n1", "owner-1")), create(pod("a", "p2", "n1", "owner-2")), create(pod("b", "p3", "", "owner-1")))
	names := func(seq func(func(*Item) bool)) (out []string) {
		for it := range seq {
			out = append(out, it.Key.String())
		}
		return out
	}
	check := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	before := s.Snapshot(pods)
	check("node n1", names(before.Index(IndexNode, "n1")), "a/p1", "a/p2")
	check("owner-1", names(before.Index(IndexOwner, "owner-1")), "a/p1", "b/p3")
	check("without a controller", names(before.Index(IndexOrphan, "a")), "a/p4")
	check("without a controller elsewhere", names(before.Index(IndexOrphan, "b")))
	check("namespace a", names(before.Namespace("a")), "a/p1", "a/p2", "a/p4")
	check("no value", names(before.Index(IndexNode, "")))
	check("no index", names(before.Index("colour", "red")))

	p3 := s.Get(pods, key("b", "p3"))
	p1, p4 := s.Get(pods, key("a", "p1")), s.Get(pods, key("a", "p4"))
	commit(t, s,
		Write{Resource: pods, Key: p3.Key, Expect: p3.Version, Object: pod("b", "p3", "n1", "owner-1")},
		Write{Resource: pods, Key: p4.Key, Expect: p4.Version, Object: pod("a", "p4", "", "owner-1")},
		Write{Resource: pods, Key: p1.Key, Expect: p1.Version})
	after := s.Snapshot(pods)
	check("node n1 later", names(after.Index(IndexNode, "n1")), "a/p2", "b/p3")
	check("owner-1 later", names(after.Index(IndexOwner, "owner-1")), "a/p4", "b/p3")
	check("without a controller later", names(after.Index(IndexOrphan, "a")))
	check("node n1 in the old snapshot", names(before.Index(IndexNode, "n1")), "a/p1", "a/p2")
	check("items of the old snapshot", names(before.All()), "a/p1", "a/p2", "a/p4", "b/p3")
}

func TestEncodings(t *testing.T) {
	s, _ := open(t, Config{})
	it := commit(t, s, create(pod("a", "p", "n", "o")))[0]
	for _, tt := range []struct {
		media schema.MediaType
		data  []byte
	}{
		{schema.Protobuf, it.AppendProtobuf([]byte("before"))[len("before"):]}, // not encoded yet
		{schema.JSON, it.JSON()}, {schema.Protobuf, it.Protobuf()},
		{schema.Protobuf, it.AppendProtobuf(nil)}, // encoded
	} {
		got, err := schema.Decode(pods, tt.media, tt.data, true)
		if err != nil {
			t.Fatalf("%s: %v", tt.media, err)
		}
		want, err := schema.Encode(it.Object, tt.media)
		if err != nil {
			t.Fatal(err)
		}
		if string(tt.data) != strings.TrimSuffix(string(want), "\n") {
			t.Errorf("%s differs from the codec's:\n%q\n%q", tt.media, tt.data, want)
		}
		if got.GetResourceVersion() != it.Version.String() {
			t.Errorf("%s says version %s, want %v", tt.media, got.GetResourceVersion(), it.Version)
		}
	}
	if first, again := it.JSON(), it.JSON(); &first[0] != &again[0] {
		t.Error("JSON is encoded for each reader")
	}
	// What one client alone is answered is not kept.
	it = commit(t, s, create(pod("a", "q", "n", "o")))[0]
	if it.AppendProtobuf(nil); it.proto.Load() != nil {
		t.Error("the answer to one client is kept")
	}
}

func TestNoSpace(t *testing.T) {
	dir := t.TempDir()
	s, stop := open(t, Config{Dir: dir, QuotaBytes: 1 << 20})
	var err error
	for i := 0; err == nil && i < 100; i++ {
		_, err = s.Txn(t.Context(), []Write{create(configMap("default", fmt.Sprintf("c%d", i), strings.Repeat("x", 100_000)))})
	}
	if !errors.Is(err, ErrNoSpace) {
		t.Fatalf("got %v, want ErrNoSpace", err)
	}
	it := s.Get(configMaps, key("default", "c0"))
	if it == nil {
		t.Fatal("reads do not go on")
	}
	commit(t, s, Write{Resource: configMaps, Key: it.Key, Expect: it.Version}) // deletes do
	stop()

	s, _ = open(t, Config{Dir: dir, ReserveBytes: 1 << 60})
	if _, err = s.Txn(t.Context(), manyConfigMaps(1)); !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), "MiB free") {
		t.Errorf("got %v, want one that says how much is free", err)
	}
}

func TestDamagedDirectory(t *testing.T) {
	dir := t.TempDir()
	s, stop := open(t, Config{Dir: dir})
	commit(t, s, manyConfigMaps(1)...)
	stop()
	wal, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(wal) == 0 {
		t.Fatalf("no log found: %v", err)
	}
	if err := os.WriteFile(wal[0], []byte("this is no log"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = New(Config{Dir: dir}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want an error that names the directory", err)
	}
}

func TestDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	open(t, Config{Dir: dir})
	if err := New(Config{Dir: dir}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("got %v, want an error that says that it is in use", err)
	}
}

func TestClosed(t *testing.T) {
	s, stop := open(t, Config{})
	w, err := s.Watch(configMaps, s.Version())
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if _, ok := <-w.Events(); ok || !errors.Is(w.Err(), ErrClosed) {
		t.Errorf("watch ended with %v, want ErrClosed", w.Err())
	}
	if _, err := s.Watch(configMaps, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("Watch: %v, want ErrClosed", err)
	}
	if err := s.WaitFor(context.Background(), s.Version()+1); !errors.Is(err, ErrClosed) {
		t.Errorf("WaitFor: %v, want ErrClosed", err)
	}
}
