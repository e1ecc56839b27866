package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// fill has a server take its disk for full, or not.
func (s *Store) fill(full bool) {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	s.room.reserve = 1 << 20
	if full {
		s.room.reserve = 1 << 60
	}
}

func remove(t *testing.T, s *Store, name string) {
	t.Helper()
	if _, err := s.Txn(t.Context(), []Write{{Resource: configMaps, Key: key("default", name), Unconditional: true}}); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// A leader whose disk is full hands the lead to one with room, and writes go on.
// Where there is room on too few, all refuse puts and say whose disk it is;
// deletes pass, so that room can be made.
func TestFullDiskOfSeveral(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	old := c.leader()
	put(t, c.runs[old].Store, "a", "1")
	put(t, c.runs[old].Store, "b", "1")
	c.runs[old].fill(true)
	eventually(t, time.Minute, func() error {
		if c.runs[c.leader()] == c.runs[old] {
			return errors.New("the lead stays")
		}
		return nil
	})
	for _, i := range c.others(old) {
		put(t, c.runs[i].Store, "a", fmt.Sprint(i))
	}
	if err := c.runs[old].Full(); !errors.Is(err, ErrNoSpace) {
		t.Errorf("the full one says %v", err)
	}
	second := c.leader()
	c.runs[second].fill(true)
	for i := range c.runs {
		eventually(t, time.Minute, func() error {
			_, err := c.runs[i].Txn(t.Context(), []Write{{Resource: configMaps, Key: key("default", "x"), Object: configMap("default", "x", "1"), Unconditional: true}})
			if !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), "MiB free") {
				return fmt.Errorf("member %d puts: %w", i, err)
			}
			return nil
		})
	}
	remove(t, c.runs[second].Store, "a")
	remove(t, c.runs[c.others(second)[0]].Store, "b")
	c.runs[old].fill(false)
	c.runs[second].fill(false)
	for i := range c.runs {
		put(t, c.runs[i].Store, "after", fmt.Sprint(i))
	}
}

// Alone there is nobody to take the lead: what makes room goes on.
func TestFullDiskAlone(t *testing.T) {
	t.Parallel()
	s, _ := open(t, Config{})
	commit(t, s, create(configMap("default", "a", "1")))
	s.fill(true)
	eventually(t, time.Minute, func() error {
		if s.Full() == nil {
			return errors.New("not noticed")
		}
		return nil
	})
	remove(t, s, "a")
	if !s.IsLeader() {
		t.Error("nobody leads")
	}
	s.fill(false)
	eventually(t, time.Minute, s.Full)
	commit(t, s, create(configMap("default", "b", "1")))
}

func TestCrowd(t *testing.T) {
	for _, tt := range []struct {
		name   string
		c      crowd
		refuse string
	}{
		{"room on all", crowd{voters: 3, leader: 1}, ""},
		{"the leader", crowd{voters: 3, leader: 1, full: map[uint64]string{1: "x"}, names: map[uint64]string{1: "one"}}, "server one: x"},
		{"a follower", crowd{voters: 3, leader: 1, full: map[uint64]string{2: "x"}}, ""},
		{"two followers", crowd{voters: 3, leader: 1, full: map[uint64]string{2: "x", 3: "y"}, names: map[uint64]string{2: "two"}}, "server two: x"},
		{"one of two", crowd{voters: 2, leader: 1, full: map[uint64]string{2: "x"}, names: map[uint64]string{2: "two"}}, "server two: x"},
	} {
		if got := tt.c.refusal(); got != tt.refuse {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.refuse)
		}
	}
}
