package store

import (
	"fmt"
	"testing"
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
