package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// tape is a feed that delivers some versions and then ends with an error.
type tape struct {
	events  chan []*store.Event
	err     error
	stopped bool
}

func newTape(err error, versions ...schema.ResourceVersion) *tape {
	f := &tape{events: make(chan []*store.Event, len(versions)), err: err}
	for _, v := range versions {
		o := configMap(fmt.Sprint("v", uint64(v)), "x")
		f.events <- []*store.Event{{Type: store.Added, Item: &store.Item{Resource: configMaps, Version: v, Object: o}}}
	}
	close(f.events)
	return f
}

func (f *tape) Events() <-chan []*store.Event { return f.events }
func (f *tape) Err() error                    { return f.err }
func (f *tape) Stop()                         { f.stopped = true }

// TestDeliverFollowsAgain: a feed that ends early costs no event, and one that
// cannot be continued is never passed over in silence.
func TestDeliverFollowsAgain(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name  string
		first *tape
		later map[schema.ResourceVersion]*tape // by the version that is asked for
		want  []string
		err   error
	}{
		{
			name: "again after the last event", first: newTape(broken, 5, 6),
			later: map[schema.ResourceVersion]*tape{6: newTape(nil, 9), 9: newTape(store.ErrClosed, 12)},
			want:  []string{"v5", "v6", "v9", "v12"},
		},
		{
			name: "again from the start", first: newTape(broken),
			later: map[schema.ResourceVersion]*tape{3: newTape(store.ErrClosed, 4)},
			want:  []string{"v4"},
		},
		{name: "the store closes", first: newTape(store.ErrClosed, 5), want: []string{"v5"}},
		{name: "events are gone", first: newTape(broken, 5), want: []string{"v5"}, err: store.ErrExpired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			follow := func(from schema.ResourceVersion) (feed, error) {
				if f := tt.later[from]; f != nil {
					return f, nil
				}
				return nil, store.ErrExpired
			}
			err := deliver(t.Context(), tt.first, 3, follow, func(e client.Event) { got = append(got, e.Object.GetName()) })
			if !errors.Is(err, tt.err) {
				t.Errorf("deliver: %v, want %v", err, tt.err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("delivered %v, want %v", got, tt.want)
			}
			if !tt.first.stopped {
				t.Error("the feed that ended was not stopped")
			}
		})
	}
}

// TestDeliverEnds: with ctx there is nothing to follow again.
func TestDeliverEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := newTape(nil, 5, 6)
	n := 0
	err := deliver(ctx, f, 3, func(schema.ResourceVersion) (feed, error) {
		t.Error("followed again after ctx was done")
		return nil, store.ErrClosed
	}, func(client.Event) { n++; cancel() })
	if err != nil || n != 1 || !f.stopped {
		t.Errorf("deliver: %v after %d events, stopped %v", err, n, f.stopped)
	}
}
