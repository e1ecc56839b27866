package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// damage changes one byte of a value in the database of a member that is stopped.
func damage(t *testing.T, dir, from, to string) {
	t.Helper()
	file := filepath.Join(dir, "member", "snap", "db")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := bytes.Count(data, []byte(from))
	if n == 0 {
		t.Fatalf("%q is not in %s", from, file)
	}
	if err := os.WriteFile(file, bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A byte that has changed in the database of a member that was stopped is found
// when it starts: it serves nothing of it, and says what to do. The others start
// as ever, with the damaged one among those that they compare with.
func TestChangedByte(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	put(t, c.runs[0].Store, "a", "a-value-to-change")
	for i := range c.runs {
		eventually(t, time.Minute, func() error { return c.runs[i].Current(t.Context()) })
	}
	lost := c.others(c.leader())[0]
	c.stop(lost)
	put(t, c.runs[c.leader(c.others(lost)...)].Store, "later", "1")
	damage(t, c.cfg[lost].Dir, "a-value-to-change", "a-value-to-chbnge")
	r := c.launch(lost)
	select {
	case <-r.Ready():
		t.Fatalf("it serves %q", value(r.Store, "a"))
	case err := <-r.done:
		r.done <- nil
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "writ member remove") {
			t.Errorf("ended with: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("neither ready nor ended")
	}
	put(t, c.runs[c.leader(c.others(lost)...)].Store, "later", "2")
}

// One that begins to differ while it runs, which only its next compaction shows,
// ends; the others write on.
func TestChangedByteWhileRunning(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("etcd compares once a minute")
	}
	c := newCluster(t, 3, nil)
	put(t, c.runs[0].Store, "a", "a-value-to-change")
	leads := c.leader()
	lost := c.others(leads)[0]
	c.stop(lost)
	damage(t, c.cfg[lost].Dir, "a-value-to-change", "a-value-to-chbnge")
	c.cfg[lost].Members.unchecked = true
	r := c.launch(lost)
	c.await(lost)
	if got := value(r.Store, "a"); got != "a-value-to-chbnge" {
		t.Fatalf("not damaged: %q", got)
	}
	put(t, c.runs[leads].Store, "b", "1")
	put(t, c.runs[leads].Store, "b", "2")
	leads = c.leader()
	if err := c.runs[leads].compact(t.Context(), c.runs[leads].Version().Main()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-r.done:
		r.done <- nil
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("ended with: %v", err)
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("it goes on")
	}
	c.stop(lost)
	eventually(t, time.Minute, func() error {
		_, err := c.runs[c.leader(c.others(lost)...)].Txn(t.Context(), []Write{{Resource: configMaps, Key: key("default", "z"), Object: configMap("default", "z", "1"), Unconditional: true}})
		return err
	})
}

// Who is of the majority goes on.
func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		same, differ int
		ok           bool
	}{{0, 0, true}, {2, 0, true}, {1, 1, true}, {0, 1, false}, {0, 2, false}, {1, 3, false}, {2, 2, true}, {1, 2, false}} {
		c := compared{same: make([]string, tt.same), differ: make([]string, tt.differ)}
		if err := c.verdict(); (err == nil) != tt.ok {
			t.Error(fmt.Sprint(tt), err)
		}
	}
}
