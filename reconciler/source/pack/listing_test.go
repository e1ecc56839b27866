package pack

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/writ-os/writ/reconciler/sandbox"
)

// spooled is a pack of three objects that was sent, and its listing.
func spooled(t *testing.T) (dir string, s Spooled, listing []byte) {
	t.Helper()
	var b builder
	for _, text := range []string{"a", "bb", "ccc"} {
		b.add(plumbing.BlobObject, len(text), nil, []byte(text))
	}
	in := b.done()
	dir = t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "objects", "pack"), 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Spool(filepath.Join(dir, "in"), bytes.NewReader(in), limits)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Read(bytes.NewReader(in), s.Size, limits)
	if err != nil {
		t.Fatal(err)
	}
	return dir, s, c.Listing()
}

// A process that was taken over cannot have an index written which leads its
// readers out of the pack, and what is refused leaves nothing.
func TestPlaceRefusesWhatCannotBe(t *testing.T) {
	at := func(i int) int { return i*listed + 24 }
	for name, lie := range map[string]func([]byte) []byte{
		"half an object":      func(l []byte) []byte { return l[:len(l)-1] },
		"fewer objects":       func(l []byte) []byte { return l[:2*listed] },
		"more objects":        func(l []byte) []byte { return append(l, bytes.Repeat([]byte{0xff}, listed)...) },
		"one twice":           func(l []byte) []byte { copy(l[listed:], l[:20]); return l },
		"in another order":    func(l []byte) []byte { copy(l[2*listed:], make([]byte, 20)); return l },
		"in the header":       func(l []byte) []byte { binary.BigEndian.PutUint64(l[at(0):], 4); return l },
		"in the sum":          func(l []byte) []byte { binary.BigEndian.PutUint64(l[at(1):], 1<<20); return l },
		"far away":            func(l []byte) []byte { binary.BigEndian.PutUint64(l[at(2):], 1<<63); return l },
		"two at one place":    func(l []byte) []byte { copy(l[at(1):], l[at(0):at(0)+8]); return l },
		"in front of it all":  func(l []byte) []byte { binary.BigEndian.PutUint64(l[at(1):], 0); return l },
		"another one's bytes": func([]byte) []byte { return bytes.Repeat([]byte("<html>"), 16) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, s, listing := spooled(t)
			base, err := s.Place(dir, lie(listing))
			if err == nil || !errors.Is(err, errListing) {
				t.Errorf("%q %v", base, err)
			}
			if left, err := os.ReadDir(filepath.Join(dir, "objects", "pack")); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
	dir, s, listing := spooled(t)
	base, err := s.Place(dir, listing)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open(filepath.Join(dir, base))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	o, err := p.Get(plumbing.ComputeHash(plumbing.BlobObject, []byte("bb")))
	if err != nil || o.Size() != 2 {
		t.Errorf("%v %v", o, err)
	}
}

// Why a pack is refused is said in the words of whoever has read it.
func TestAskSaysWhy(t *testing.T) {
	_, s, _ := spooled(t)
	judge := Judge("test", func(c *Contents, _ *sandbox.Caller) error {
		for o := range c.All() {
			if kind, ok := c.Kind(o.Hash); !ok || kind != o.Kind {
				t.Errorf("%v %v %v", o, kind, ok)
			}
			if e, err := c.Get(o.Hash); err != nil || e.Hash() != o.Hash {
				t.Errorf("%v %v", e, err)
			}
		}
		return nil
	})
	if listing, err := s.Ask(t.Context(), nil, judge, nil, limits); err != nil || len(listing) != 3*listed {
		t.Errorf("%d bytes, %v", len(listing), err)
	}
	small := limits
	small.Object = 2
	if _, err := s.Ask(t.Context(), nil, judge, nil, small); !errors.Is(err, ErrTooLarge) || err.Error() != "too large: an object of 3 bytes; one may have 2 bytes" {
		t.Error(err)
	}
	ends := Judge("test", func(*Contents, *sandbox.Caller) error { panic("at the disco") })
	if _, err := s.Ask(t.Context(), nil, ends, nil, limits); err == nil || !strings.HasPrefix(err.Error(), "read pack: the process that reads it has ended: it broke down: at the disco;") {
		t.Error(err)
	}
	if err := explain(&sandbox.Death{Cause: sandbox.Memory}); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "needs more than 1024 MiB of memory: send the history in parts") {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Ask(gone, nil, judge, nil, limits); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
