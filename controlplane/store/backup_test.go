package store

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
)

// TestBackup: what is restored is what was there, at the versions that it had;
// later versions come after all that were given since, and a watch from before
// is told to list again. A second backup of that is restored as well.
func TestBackup(t *testing.T) {
	s, _ := open(t, Config{})
	commit(t, s, manyConfigMaps(500)...)
	commit(t, s, create(configMap("default", "a", "1")))
	before := contents(s)
	var b bytes.Buffer
	version, err := s.Backup(t.Context(), &b)
	if err != nil || version != s.Version() {
		t.Fatalf("%v, %v", version, err)
	}
	for _, v := range []string{"2", "3"} { // lost
		put(t, s, "a", v)
	}
	lost := s.Version()

	// As etcd's own tool sees it.
	file := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if st, err := snapshot.NewV3(zap.NewNop()).Status(file); err != nil || st.TotalKey != 501 || st.Revision != version.Main() {
		t.Errorf("etcd's tool sees %+v, %v", st, err)
	}

	for range 2 {
		dir := filepath.Join(t.TempDir(), "sub", "etcd")
		if err := Restore(bytes.NewReader(b.Bytes()), dir, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		r, stop := open(t, Config{Dir: dir})
		after := contents(r)
		for k, v := range before {
			if after[k] != v {
				t.Errorf("%v is at %v, was at %v", k, after[k], v)
			}
		}
		if len(after) != len(before) || value(r, "a") != "1" || r.Version() <= lost {
			t.Errorf("restored: %d objects, a is %q, at %v", len(after), value(r, "a"), r.Version())
		}
		if _, err := r.Watch(configMaps, lost); !errors.Is(err, ErrExpired) {
			t.Errorf("a watch from what was lost: %v", err)
		}
		put(t, r, "a", "4")
		version := r.Version()
		stop()
		r, stop = open(t, Config{Dir: dir})
		if r.Version() != version || value(r, "a") != "4" {
			t.Errorf("after a restart at %v, was at %v", r.Version(), version)
		}
		if n := testutil.ToFloat64(r.met.unreadable); n != 0 {
			t.Errorf("%v keys are not understood", n)
		}
		put(t, r, "a", "1")
		before = contents(r)
		b.Reset()
		if _, err := r.Backup(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		lost = r.Version()
		stop()
	}
}

// TestRestoreRefused: a backup that is cut off or changed is no backup, and a
// directory that holds something is not written over. Nothing is left behind.
func TestRestoreRefused(t *testing.T) {
	s, _ := open(t, Config{})
	commit(t, s, manyConfigMaps(10)...)
	var b bytes.Buffer
	if _, err := s.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	good := b.Bytes()
	changed := bytes.Clone(good)
	changed[len(changed)/2] ^= 1
	for name, bad := range map[string][]byte{
		"empty": nil, "short": good[:100], "without its sum": good[:len(good)-32], "cut off": good[:len(good)-4096], "changed": changed,
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			if err := Restore(bytes.NewReader(bad), filepath.Join(parent, "etcd"), slog.New(slog.DiscardHandler)); err == nil {
				t.Error("restored")
			}
			if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Restore(bytes.NewReader(good), dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("restored over something: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Backup(ctx, &b); !errors.Is(err, context.Canceled) {
		t.Errorf("a backup that was ended: %v", err)
	}
}

// TestRestoreCluster: a backup made by a follower is restored, and becomes the
// first of two.
func TestRestoreCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	put(t, c.runs[0].Store, "a", "1")
	var b bytes.Buffer
	if _, err := c.runs[c.others(c.leader())[0]].Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	for i := range c.runs {
		c.stop(i)
	}
	for i := range 2 {
		c.cfg[i].Dir = filepath.Join(t.TempDir(), "etcd")
		c.cfg[i].Members.Initial = nil
	}
	if err := Restore(&b, c.cfg[0].Dir, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	s := c.start(0)
	j, err := s.AddMember(t.Context(), c.cfg[1].Members.Name, c.cfg[1].Members.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.cfg[1].Members.Join = j.Peers
	c.start(1)
	voters(t, s, 2)
	if got := value(c.runs[1].Store, "a"); got != "1" {
		t.Errorf("the second reads %q", got)
	}
	put(t, c.runs[1].Store, "a", "2")
	c.agree()
}
