package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
)

// runFor runs a store that should not become ready, and returns why.
func runFor(t *testing.T, cfg Config, d time.Duration) error {
	t.Helper()
	cfg.Log = quiet("x")
	s := New(cfg)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	err := s.Run(ctx)
	select {
	case <-s.Ready():
		t.Error("the store was ready")
	default:
	}
	return err
}

// TestLostData: a member whose data is gone is refused under its old ID, because
// its votes are gone as well; removed and added again it gets all of the data.
// The member that was removed says so when it is started again.
func TestLostData(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	put(t, c.runs[0].Store, "a", "1")
	lost := c.others(c.leader())[0]
	id := MemberID(c.runs[lost].etcd.MemberID())
	eventually(t, 30*time.Second, func() error { // its name is known
		if m := c.runs[c.leader()].etcd.Cluster().Member(c.runs[lost].etcd.MemberID()); !m.IsStarted() {
			return fmt.Errorf("member %v is not started", m)
		}
		return nil
	})
	c.stop(lost)
	old := c.cfg[lost].Dir
	c.cfg[lost].Dir = filepath.Join(t.TempDir(), "etcd")
	m := c.cfg[lost].Members
	m.Initial = nil
	for _, i := range c.others(lost) {
		m.Join = append(m.Join, c.cfg[i].Members.URL)
	}
	s := c.runs[c.leader(c.others(lost)...)].Store
	put(t, s, "a", "2")
	if err := runFor(t, c.cfg[lost], time.Minute); err == nil || !strings.Contains(err.Error(), "its data is gone: remove it and add it again") {
		t.Errorf("a member without its data: %v", err)
	}
	if _, err := s.AddMember(t.Context(), m.Name, m.URL); err == nil || !strings.Contains(err.Error(), "remove it first") {
		t.Errorf("added twice: %v", err)
	}
	if err := s.RemoveMember(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveMember(t.Context(), id); err != nil {
		t.Errorf("removed twice: %v", err)
	}
	if err := s.RemoveMember(t.Context(), 12345); err == nil {
		t.Error("removed nobody")
	}
	voters(t, s, 2)

	// The old directory.
	again := c.cfg[lost]
	again.Dir = old
	if err := runFor(t, again, time.Minute); !errors.Is(err, ErrRemoved) {
		t.Errorf("a member that was removed: %v", err)
	}

	j, err := s.AddMember(t.Context(), m.Name, m.URL)
	if err != nil {
		t.Fatal(err)
	}
	if j.ID == id {
		t.Errorf("the member has its old ID %v", id)
	}
	m.Join = j.Peers
	back := c.start(lost)
	voters(t, s, 3)
	if value(back, "a") != "2" {
		t.Errorf("the member that was added again reads %q", value(back, "a"))
	}
	put(t, back, "a", "3")
	c.agree()
}

// TestRemoved: a member that runs ends when it is removed, also the leader, who
// hands over before: nobody is without a leader meanwhile.
func TestRemoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	eventually(t, 30*time.Second, func() error { return c.runs[0].Current(t.Context()) })
	gone := c.leader()
	r := c.runs[gone]
	if err := r.RemoveMember(t.Context(), MemberID(r.etcd.MemberID())); err == nil {
		t.Error("a member removed itself")
	}
	by := c.runs[c.others(gone)[0]]
	if err := by.RemoveMember(t.Context(), MemberID(r.etcd.MemberID())); err != nil {
		t.Fatal(err)
	}
	if l := by.etcd.Leader(); l != by.etcd.MemberID() {
		t.Errorf("%v leads, and not %v, who took over", l, by.etcd.MemberID())
	}
	select {
	case err := <-r.done:
		if !errors.Is(err, ErrRemoved) {
			t.Errorf("who was removed ends with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("who was removed goes on")
	}
	if r.IsLeader() {
		t.Error("who was removed leads")
	}
	c.runs[gone] = nil
	put(t, c.runs[c.leader()].Store, "a", "1")
}

// TestMembersRefused: what cannot work is said at the start.
func TestMembersRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	c.net.addDoor(t)
	c.net.certify(t, "stranger")
	m := func(change func(*Members)) Config {
		m := c.net.member(1)
		m.Join = []string{c.cfg[0].Members.URL}
		change(m)
		return Config{Dir: filepath.Join(t.TempDir(), "etcd"), Members: m, Tick: clusterTick}
	}
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"no name", m(func(m *Members) { m.Name = "" }), "no name"},
		{"no port", m(func(m *Members) { m.Listen = "127.0.0.1" }), "missing port"},
		{"without TLS", m(func(m *Members) { m.URL = "http://127.0.0.1:1" }), "https://host:port"},
		{"a path", m(func(m *Members) { m.URL = "https://127.0.0.1:1/x" }), "https://host:port"},
		{"no certificate", m(func(m *Members) { m.TLS.CertFile = "" }), "needs a certificate"},
		{"no such certificate", m(func(m *Members) { m.TLS.CertFile = "/none" }), "read the certificates"},
		{"not one of the initial", m(func(m *Members) { m.Initial = map[string]string{"a": "https://h:1"} }), "initial members do not have"},
		{"begin and join", m(func(m *Members) { m.Initial = map[string]string{m.Name: m.URL} }), "to begin a cluster and to join"},
		{"join nowhere", m(func(m *Members) { m.Join = []string{"h:1"} }), "URL of a member"},
		{"not added", m(func(*Members) {}), "add it there first"},
		{"a stranger", m(func(m *Members) { m.TLS = c.net.files("stranger") }), "could not retrieve cluster information"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := runFor(t, tt.cfg, 2*time.Second); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}

	alone, _ := open(t, Config{})
	if _, err := alone.AddMember(t.Context(), "x", "https://h:1"); err == nil {
		t.Error("a store that listens to nobody adds a member")
	}
	if _, err := c.runs[0].AddMember(t.Context(), "x", "http://h:1"); err == nil {
		t.Error("a member is added without TLS")
	}
	ms, err := alone.Members(t.Context())
	if err != nil || len(ms) != 1 || !ms[0].Self || !ms[0].Leader || !alone.IsLeader() || alone.Current(t.Context()) != nil {
		t.Errorf("alone: %+v, %v", ms, err)
	}
}

// TestNotAlone: the data of one of several is not served by one that listens to
// nobody, and one of several is not ready without the others.
func TestNotAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, nil)
	put(t, c.runs[0].Store, "a", "1")
	c.stop(0)
	cfg := c.cfg[0]
	if err := runFor(t, cfg, 0); err == nil {
		t.Error("ready within no time")
	}
	cfg.Members = nil
	if err := runFor(t, cfg, time.Minute); err == nil || !strings.Contains(err.Error(), "one of 2 servers") {
		t.Errorf("served alone: %v", err)
	}
	c.start(0)
	put(t, c.runs[1].Store, "a", "2")
	c.agree()
}

// TestFive: of five members two may be away.
func TestFive(t *testing.T) {
	c := newCluster(t, 5, nil)
	put(t, c.runs[4].Store, "a", "1")
	leads := c.leader()
	away := c.others(leads)[:2]
	for _, i := range away {
		c.net.isolate(i)
	}
	put(t, c.runs[leads].Store, "a", "2")
	c.net.isolate(leads)
	if _, err := c.runs[c.others(leads)[3]].Txn(t.Context(), []Write{create(configMap("default", "b", "x"))}); !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("two of five: %v", err)
	}
	c.net.heal()
	put(t, c.runs[away[0]].Store, "a", "3")
	c.agree()
}

// TestLargeTxnOfFollower: a commit as large as they come goes through a member
// that does not lead.
func TestLargeTxnOfFollower(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.Tick = 100 * time.Millisecond })
	s := c.runs[c.others(c.leader())[0]].Store
	var writes []Write
	size := 48 << 10
	if raceEnabled { // etcd gives a transaction 7 s, which the detector makes short
		size = 4 << 10
	}
	for i := range 500 {
		w := create(configMap("large", fmt.Sprintf("c%d", i), strings.Repeat(string(rune('a'+i%26)), size)))
		w.Unconditional = true
		writes = append(writes, w)
	}
	var items []*Item
	eventually(t, time.Minute, func() (err error) {
		items, err = s.Txn(t.Context(), writes)
		return err
	})
	if first, last := items[0].Version, items[499].Version; first.Main() != last.Main() || last.Sub() != 499 {
		t.Errorf("versions go from %v to %v, want one revision", first, last)
	}
	c.agree()
}

// TestMove: a member that is started at another address is found there.
func TestMove(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	put(t, c.runs[0].Store, "a", "1")
	moved := c.others(c.leader())[0]
	c.stop(moved)
	c.net.addDoor(t)
	to := c.net.member(3)
	c.cfg[moved].Members.URL, c.cfg[moved].Members.Listen = to.URL, to.Listen
	c.cfg[moved].Members.Initial = nil
	c.start(moved)
	put(t, c.runs[moved].Store, "a", "2")
	for _, r := range c.runs {
		ms, err := r.Members(t.Context())
		if err != nil || !strings.Contains(fmt.Sprint(ms), to.URL) {
			t.Errorf("members %+v, %v", ms, err)
		}
	}
	c.agree()
}

func TestMemberID(t *testing.T) {
	in := Joining{ID: 0xfedcba9876543210, Peers: []string{"https://h:1"}}
	b, err := json.Marshal(in)
	if err != nil || !strings.Contains(string(b), `"fedcba9876543210"`) {
		t.Fatalf("%s, %v", b, err)
	}
	var out Joining
	if err := json.Unmarshal(b, &out); err != nil || out.ID != in.ID {
		t.Errorf("%+v, %v", out, err)
	}
	if err := out.ID.UnmarshalText([]byte("x")); err == nil {
		t.Error("x is an ID")
	}
}

// TestInitialMembers: what one that joins makes of what the members say.
func TestInitialMembers(t *testing.T) {
	m := &Members{Name: "c", URL: "https://c:1"}
	member := func(id types.ID, name, url string) *membership.Member {
		return &membership.Member{ID: id, RaftAttributes: membership.RaftAttributes{PeerURLs: []string{url}}, Attributes: membership.Attributes{Name: name}}
	}
	one, two := member(1, "a", "https://a:1"), member(2, "", "https://b:1")
	for _, tt := range []struct {
		name  string
		self  *membership.Member
		added bool
		err   string
	}{
		{name: "not added"},
		{name: "added", self: member(3, "", "https://c:1"), added: true},
		{name: "was here before", self: member(3, "c", "https://c:1"), err: "its data is gone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := []*membership.Member{one, two}
			if tt.self != nil {
				all = append(all, tt.self)
			}
			urls, added, err := initialMembers(all, m)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || added != tt.added {
				t.Fatalf("%v, %v, %v", urls, added, err)
			}
			if tt.added && (len(urls) != 3 || urls["c"].String() != m.URL) {
				t.Errorf("members are %v", urls)
			}
		})
	}
}
