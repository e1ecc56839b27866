package store

import (
	"errors"
	"testing"

	"github.com/writ-os/writ/schema"
)

// TestRecord: a record and the object beside it are stored together or not at all,
// outlive a restart, and no key of an object is that of a record.
func TestRecord(t *testing.T) {
	dir := t.TempDir()
	s, stop := open(t, Config{Dir: dir})
	rec, changed := s.Record("refs")
	if rec.Version != 0 || rec.Value != nil {
		t.Fatalf("there is none: %+v", rec)
	}
	beside := Write{Resource: configMaps, Key: schema.Key{Namespace: "a", Name: "b"}, Object: configMap("a", "b", "1")}
	if err := s.PutRecord(t.Context(), "refs", []byte("one"), 0, beside); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody hears of the change")
	}
	rec, _ = s.Record("refs")
	it := s.View().Get(configMaps, beside.Key)
	if string(rec.Value) != "one" || it == nil || it.Version.Main() != rec.Version.Main() {
		t.Fatalf("%+v and %+v are not of one revision", rec, it)
	}
	for what, err := range map[string]error{
		"one that is expected not to be": s.PutRecord(t.Context(), "refs", []byte("two"), 0),
		"an object that has changed":     s.PutRecord(t.Context(), "refs", []byte("two"), rec.Version, beside),
	} {
		if !errors.Is(err, ErrRecordChanged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, name := range []string{"", "a/b"} {
		if err := s.PutRecord(t.Context(), name, nil, 0); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
	if now, _ := s.Record("refs"); string(now.Value) != "one" || now.Version != rec.Version {
		t.Errorf("what was refused is stored: %+v", now)
	}
	if err := s.PutRecord(t.Context(), "refs", []byte("two"), rec.Version); err != nil {
		t.Fatal(err)
	}
	stop()
	s, _ = open(t, Config{Dir: dir})
	if now, _ := s.Record("refs"); string(now.Value) != "two" {
		t.Errorf("after a restart: %+v", now)
	}
	key := []byte(recordRoot + "refs")
	if _, _, ok := s.keys.Load().decode(key); ok {
		t.Error("an object has the key of a record")
	}
	if prefix, ok := strayPrefix(key); ok {
		t.Errorf("a resource %s that is added would have the record as its object", prefix)
	}
}

// TestRecordOfSeveral: every member has a record once it is current, also one that
// missed the history.
func TestRecordOfSeveral(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.Members.keepLog = 10 })
	leader := c.leader()
	away := (leader + 1) % 3
	c.stop(away)
	s := c.runs[leader].Store
	if err := s.PutRecord(t.Context(), "refs", []byte("one"), 0); err != nil {
		t.Fatal(err)
	}
	for i := range c.runs {
		if i == away {
			c.start(i)
		}
		if err := c.runs[i].Current(t.Context()); err != nil {
			t.Fatal(err)
		}
		if rec, _ := c.runs[i].Record("refs"); string(rec.Value) != "one" {
			t.Errorf("member %d has %+v", i, rec)
		}
	}
}
