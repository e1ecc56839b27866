package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/schema"
)

// TestDifference: what makes a table the same as a list, in an order of versions
// that only grows.
func TestDifference(t *testing.T) {
	item := func(name, uid string, v schema.ResourceVersion) *Item {
		o := configMap("default", name, "")
		o.UID = types.UID(uid)
		return newItem(configMaps, o, v)
	}
	const was = 10<<20 + 3
	for _, tt := range []struct {
		name    string
		is, now []*Item
		want    string
	}{
		{name: "nothing"},
		{name: "the same", is: []*Item{item("a", "1", 5<<20)}, now: []*Item{item("a", "1", 5<<20)}},
		{name: "all at once",
			is:   []*Item{item("a", "1", 5<<20), item("b", "2", 6<<20), item("c", "3", 7<<20), item("d", "4", was)},
			now:  []*Item{item("a", "1", 5<<20), item("b", "2", 30<<20), item("d", "9", 20<<20), item("e", "5", 25<<20)},
			want: "DELETED c 10.4, DELETED d 10.5, ADDED d 20.0, ADDED e 25.0, MODIFIED b 30.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable(configMaps)
			for _, it := range tt.is {
				table.put(it)
			}
			var got []string
			for _, e := range difference(table, tt.now, nil, was) {
				got = append(got, fmt.Sprintf("%s %s %d.%d", e.Type, e.Item.Key.Name, e.Version().Main(), e.Version().Sub()))
				if (e.Prev == nil) != (e.Type == Added) {
					t.Errorf("%v of %v comes after %v", e.Type, e.Item.Key, e.Prev)
				}
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("got %v, want %s", got, tt.want)
			}
		})
	}
}

// TestReplace: a log whose events stand for others ends the watches that are
// promised all of them, and goes on with those that are promised an end.
func TestReplace(t *testing.T) {
	s, _ := open(t, Config{})
	commit(t, s, create(configMap("default", "a", "1")))
	at := s.Version()
	l := s.keys.Load().find(configMaps).log
	watch, err := s.Watch(configMaps, at)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.Follow(configMaps, at)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Stop()
	it := newItem(configMaps, configMap("default", "b", "1"), at+5<<20)
	l.replace([]*Event{{Type: Added, Item: it}}, at+6<<20)
	if b := <-kept.Events(); len(b) != 1 || b[0].Item != it {
		t.Errorf("Follow got %v", b)
	}
	if _, ok := <-watch.Events(); ok || !errors.Is(watch.Err(), ErrExpired) {
		t.Errorf("the watch: %v, %v", ok, watch.Err())
	}
	// Those who begin now.
	if _, err := s.Watch(configMaps, at); !errors.Is(err, ErrExpired) {
		t.Errorf("a watch from before: %v", err)
	}
	late, err := s.Follow(configMaps, at)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Stop()
	if b := <-late.Events(); len(b) != 1 || b[0].Item != it {
		t.Errorf("Follow from before got %v", b)
	}
	after, err := s.Watch(configMaps, at+6<<20)
	if err != nil {
		t.Fatal(err)
	}
	after.Stop()
}
