package store

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// What a list has encoded is kept while somebody asks for it, and no longer: 42 MB
// of the Events of a cluster that nobody read twice.
func TestForgetEncodings(t *testing.T) {
	s, _ := open(t, Config{})
	for i := range 20 {
		commit(t, s, create(configMap("default", fmt.Sprint("c-", i), "x")))
	}
	kept := func() (n int) {
		for it := range s.Snapshot(configMaps).All() {
			for _, p := range []*[]byte{it.json.Load(), it.proto.Load()} {
				if p != nil {
					n++
				}
			}
			if it.shown.Load() != nil {
				n++
			}
		}
		return n
	}
	for it := range s.Snapshot(configMaps).All() {
		it.JSON()
		it.Protobuf()
		it.Show(configMaps, configMap("default", it.Key.Name, "x")).JSON()
	}
	s.forgetEncodings()
	if n := kept(); n != 60 {
		t.Errorf("%d encodings are left of 60 that were just asked for", n)
	}
	one := s.Get(configMaps, key("default", "c-3"))
	s.forgetEncodings()
	s.forgetEncodings()
	one.JSON()
	s.forgetEncodings()
	if n := kept(); n != 1 {
		t.Errorf("%d encodings are left that nobody asks for", n-1)
	}
}

// What was encoded for watchers does not stay for as long as a watch may be
// resumed: a cluster that works hard had 12,000 of them in its history.
func TestForgetFrames(t *testing.T) {
	s, _ := open(t, Config{})
	for i := range 10 {
		commit(t, s, create(configMap("default", fmt.Sprint("c-", i), "x")))
		it := s.Get(configMaps, key("default", fmt.Sprint("c-", i)))
		commit(t, s, Write{Resource: configMaps, Key: it.Key, Expect: it.Version, Object: configMap("default", it.Key.Name, "y")})
		it = s.Get(configMaps, it.Key)
		commit(t, s, Write{Resource: configMaps, Key: it.Key, Expect: it.Version})
	}
	log := s.keys.Load().find(configMaps).log
	events := func() []*Event {
		log.mu.Lock()
		defer log.mu.Unlock()
		return slices.Clone(log.events)
	}
	for len(events()) < 30 { // the log has a write a moment after its writer knows
		runtime.Gosched()
	}
	encode := func() (text string) {
		for _, e := range events() {
			text += string(e.JSONFrame(e.Type)) + string(e.ProtobufFrame(e.Type))
			if e.Prev != nil {
				text += string(e.Gone().JSON())
			}
		}
		return text
	}
	held := func() (n int) {
		for _, e := range events() {
			for f := range e.frames {
				for i := range e.frames[f] {
					if e.frames[f][i].Load() != nil {
						n++
					}
				}
			}
			if e.Prev != nil && e.Prev.json.Load() != nil {
				n++
			}
		}
		return n
	}
	before := encode()
	if len(events()) != 30 || held() == 0 {
		t.Fatalf("%d events hold %d encodings", len(events()), held())
	}
	now := time.Now()
	log.trim(now, time.Hour)
	if held() == 0 {
		t.Error("watchers that are being served have their encodings taken away")
	}
	for range 2 { // the second time nobody has asked since
		log.trim(now.Add(time.Minute), time.Hour)
	}
	if n := held(); n != 0 || len(events()) != 30 {
		t.Errorf("%d encodings are left of %d events", n, len(events()))
	}
	if after := encode(); after != before {
		t.Error("a watch that is resumed is told something else")
	}
}
