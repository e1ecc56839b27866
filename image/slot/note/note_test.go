package note

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// memory is a partition that remembers how it was written to.
type memory struct {
	b      []byte
	synced bool
	writes [][2]int64 // offset and length
	err    error
}

func (m *memory) Size() int64 { return int64(len(m.b)) }
func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(m.b).ReadAt(p, off)
}
func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.synced, m.writes = false, append(m.writes, [2]int64{off, int64(len(p))})
	return copy(m.b[off:], p), m.err
}
func (m *memory) Sync() error { m.synced = true; return nil }

func TestNote(t *testing.T) {
	m := &memory{b: bytes.Repeat([]byte{0xaa}, 3*Room)}
	if n, err := Read(m, m.Size(), hash); err != nil || n != (Note{RootHash: hash}) {
		t.Errorf("of no note: %+v, %v", n, err)
	}
	for _, want := range []Note{
		{hash, 0, ""}, {hash, 2, ""}, {hash, 1<<32 - 1, "block 17 of the root file system is not what the root hash stands for"},
		{hash, 3, strings.Repeat("x", MaxDamage)},
	} {
		if err := Write(m, want); err != nil || !m.synced {
			t.Errorf("%+v: %v, synced %v", want, err, m.synced)
		}
		if n, err := Read(m, m.Size(), hash); err != nil || n != want {
			t.Errorf("%+v, %v, want %+v", n, err, want)
		}
		// What is about other content says nothing of this.
		if n, _ := Read(m, m.Size(), strings.Repeat("0", 64)); n.Starts != 0 || n.Damage != "" {
			t.Errorf("of other content: %+v", n)
		}
	}
	// One sector is written, in the room that is kept free.
	for _, w := range m.writes {
		if w != [2]int64{2 * Room, 512} {
			t.Errorf("%d bytes are written at %d", w[1], w[0])
		}
	}
	if err := Erase(m); err != nil || !m.synced {
		t.Error(err)
	}
	if n, err := Read(m, m.Size(), hash); err != nil || n != (Note{RootHash: hash}) {
		t.Errorf("erased: %+v, %v", n, err)
	}
}

func TestNoteRefuses(t *testing.T) {
	m := &memory{b: make([]byte, Room)}
	if err := Write(m, Note{RootHash: "xyz"}); err == nil || len(m.writes) > 0 {
		t.Errorf("of no root hash: %v", err)
	}
	// What is said of damage ends up on a console, and is bounded.
	if err := Write(m, Note{hash, 3, "bad\x1b[2J\nblock " + strings.Repeat("y", size)}); err != nil {
		t.Fatal(err)
	}
	if n, err := Read(m, m.Size(), hash); err != nil || !strings.HasPrefix(n.Damage, "bad[2Jblock yyy") || len(n.Damage) != MaxDamage {
		t.Errorf("%+v, %v", n, err)
	}
	// A note that is not whole is none.
	for i := range size {
		m.b[i] ^= 1
		if n, err := Read(m, m.Size(), hash); err != nil || n != (Note{RootHash: hash}) {
			t.Fatalf("byte %d: %+v, %v", i, n, err)
		}
		m.b[i] ^= 1
	}
	small := &memory{b: make([]byte, 100)}
	if _, err := Read(small, small.Size(), hash); err == nil {
		t.Error("read from a partition without room")
	}
	if err := Erase(small); err == nil || len(small.writes) > 0 {
		t.Errorf("erased in a partition without room: %v", err)
	}
	m.err = errors.New("input/output error")
	if err := Write(m, Note{RootHash: hash}); !errors.Is(err, m.err) {
		t.Errorf("%v", err)
	}
}

func FuzzParse(f *testing.F) {
	b, err := Note{hash, 3, "damage"}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != size {
			return
		}
		n, ok := parse(b)
		if !ok {
			return
		}
		if len(n.Damage) > MaxDamage || len(n.RootHash) != 64 || strings.ContainsFunc(n.Damage, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%+v", n)
		}
	})
}
