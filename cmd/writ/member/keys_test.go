package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// storing are servers over one store: what one writes all read.
type storing struct {
	servers map[string]*storer
	calls   int
	dies    int  // the call that gets no answer; 0: none
	lost    bool // that call was carried out
	joins   int  // the call before which a server joins
}

type storer struct {
	all  *storing
	name string
	keys Keys
}

var errAway = errors.New("it does not answer")

func (s *storer) Keys(context.Context) (Keys, error) { return s.keys, s.all.call(func() {}) }

func (s *storer) SetKeys(_ context.Context, k Keys) (err error) {
	return errors.Join(s.all.call(func() {
		switch {
		case k.Writes && s.keys.Key != k.Key, s.keys.Writes && s.keys.Key != k.Key:
			err = fmt.Errorf("%s refuses %+v, it has %+v", s.name, k, s.keys)
		default:
			s.keys.Key, s.keys.Writes = k.Key, k.Writes || s.keys.Writes
		}
	}), err)
}

func (a *storing) call(do func()) error {
	a.calls++
	if a.calls == a.joins {
		a.servers["joined"] = &storer{all: a, name: "joined"}
	}
	if a.calls == a.dies {
		if a.lost {
			do()
		}
		return errAway
	}
	do()
	return nil
}

func (a *storing) list(context.Context) (map[string]KeyHolder, error) {
	out := map[string]KeyHolder{}
	for name, s := range a.servers {
		out[name] = s
	}
	return out, nil
}

// readable says that whatever one stores now the others can read.
func (a *storing) readable(t *testing.T) {
	t.Helper()
	for _, w := range a.servers {
		for _, r := range a.servers {
			if w.keys.Writes && r.keys.Key != w.keys.Key {
				t.Fatalf("%s writes what %s cannot read: %+v %+v", w.name, r.name, w.keys, r.keys)
			}
		}
	}
}

// Wherever it breaks off, with the last call carried out or not, what is stored can
// be read by all, and the next attempt comes through with one key.
func TestEncryptBreaksOff(t *testing.T) {
	made := 0
	newKey := func() (string, error) { made++; return fmt.Sprint("key-", made), nil }
	for _, lost := range []bool{false, true} {
		for dies := 1; ; dies++ {
			a := &storing{servers: map[string]*storer{}, dies: dies, lost: lost}
			for i := range 3 {
				name := fmt.Sprint("s", i)
				a.servers[name] = &storer{all: a, name: name}
			}
			_, err := Encrypt(t.Context(), a.list, newKey)
			a.readable(t)
			if err == nil {
				if dies < 10 {
					t.Errorf("only %d calls", dies)
				}
				break
			}
			if !errors.Is(err, errAway) {
				t.Fatal(err)
			}
			a.dies = 0
			if e, err := Encrypt(t.Context(), a.list, newKey); err != nil || len(e.Servers) != 3 {
				t.Fatalf("after call %d: %+v %v", dies, e, err)
			}
			a.readable(t)
			for _, s := range a.servers {
				if !s.keys.Writes {
					t.Errorf("after call %d %s stores in plain", dies, s.name)
				}
			}
			if e, err := Encrypt(t.Context(), a.list, newKey); err != nil || !e.Already {
				t.Errorf("again: %+v %v", e, err)
			}
		}
	}
}

// One that joins meanwhile is given the key before anybody stores by it.
func TestEncryptWhileOneJoins(t *testing.T) {
	for joins := 1; joins <= 6; joins++ {
		a := &storing{servers: map[string]*storer{}, joins: joins}
		for _, name := range []string{"s0", "s1", "s2"} {
			a.servers[name] = &storer{all: a, name: name}
		}
		e, err := Encrypt(t.Context(), a.list, func() (string, error) { return "k", nil })
		if err != nil || len(e.Servers) != 4 {
			t.Errorf("joined before call %d: %+v %v", joins, e, err)
		}
		a.readable(t)
	}
}

// What cannot be put right by a key for all is refused, and nothing is changed.
func TestEncryptRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		have []Keys
		want string
	}{
		{"an operator's file", []Keys{{}, {Foreign: "its file says how"}}, "s1: its file says how"},
		{"two keys", []Keys{{Key: "a", Writes: true}, {Key: "b", Writes: true}}, "s0 and s1 store by different keys"},
	} {
		a := &storing{servers: map[string]*storer{}}
		for i, k := range tt.have {
			name := fmt.Sprint("s", i)
			a.servers[name] = &storer{all: a, name: name, keys: k}
		}
		_, err := Encrypt(t.Context(), a.list, func() (string, error) { return "k", nil })
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		for i, k := range tt.have {
			if got := a.servers[fmt.Sprint("s", i)].keys; got != k {
				t.Errorf("%s: changed to %+v", tt.name, got)
			}
		}
	}
}
