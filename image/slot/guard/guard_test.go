package guard

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/writ-os/writ/image/slot/boot"
	"github.com/writ-os/writ/image/slot/note"
	"github.com/writ-os/writ/image/verity"
)

func TestCount(t *testing.T) {
	for _, tt := range []struct {
		before uint32
		after  uint32
		all    bool
	}{{0, 1, false}, {1, 2, false}, {2, 3, true}, {3, 4, true}, {1 << 31, 1 << 31, true}, {1<<32 - 1, 1<<32 - 1, true}} {
		n, all := count(note.Note{RootHash: "x", Starts: tt.before, Damage: "d"})
		if n != (note.Note{RootHash: "x", Starts: tt.after, Damage: "d"}) || all != tt.all {
			t.Errorf("after %d: %+v, %v", tt.before, n, all)
		}
	}
	// What is sound begins anew, what is damaged is read at every start.
	if n := judge(note.Note{Starts: 3, Damage: "d"}, ""); n != (note.Note{}) {
		t.Errorf("%+v", n)
	}
	if n := judge(note.Note{Starts: 3}, "d"); n != (note.Note{Starts: 3, Damage: "d"}) {
		t.Errorf("%+v", n)
	}
}

// memory is a hash partition.
type memory struct {
	b        []byte
	readOnly error
}

func (m *memory) Size() int64 { return int64(len(m.b)) }
func (m *memory) Sync() error { return nil }
func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(m.b).ReadAt(p, off)
}
func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if m.readOnly != nil {
		return 0, m.readOnly
	}
	return copy(m.b[off:], p), nil
}

// content is a slot, and its root hash.
type content struct {
	root []byte
	tree *memory
	hash string
}

func newContent(t *testing.T, text string) *content {
	t.Helper()
	root := bytes.Repeat([]byte(text), 5*verity.BlockSize/len(text))
	tree, err := verity.Build(bytes.NewReader(root), int64(len(root)), verity.ParamsOf(text))
	if err != nil {
		t.Fatal(err)
	}
	return &content{root, &memory{b: append(tree.Bytes, make([]byte, 2*note.Room)...)}, hex.EncodeToString(tree.RootHash[:])}
}

func (c *content) slot() Slot { return Slot{Root: bytes.NewReader(c.root), Tree: c.tree} }

var errIO = errors.New("input/output error")

// What a machine cannot write, or cannot find, keeps it from nothing but from what
// needs it.
func TestCheckWithoutMeans(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(own *content, c *Config)
		do     Do
		err    string
		says   string
	}{
		{"a disk that is not written to", func(own *content, _ *Config) { own.tree.readOnly = errIO }, Start, "", "this start is not counted: write note: input/output error"},
		{"no root hash", func(_ *content, c *Config) { c.RootHash = "xyz" }, "", `"xyz" is no root hash`, ""},
		{"damaged at the top, and no EFI partition", func(own *content, _ *Config) { own.tree.b[verity.BlockSize] ^= 1 }, "",
			"the root file system on /dev/vda4 is damaged: block 1 of the hash tree is not what the root hash stands for; no other version on this disk can take over: write the image to the disk again, or to another disk",
			"No other version can take over: input/output error."},
		{"damaged, and no EFI partition", damagedThrice, Start, "", "The root file system on /dev/vda4 is damaged: block 1 of the root file system is not what the root hash stands for; no other"},
		{"unreadable", func(own *content, c *Config) {
			damagedThrice(own, c)
			c.Slot.Root = broken{}
		}, Start, "", "is damaged: read block 0 of 5 of the root file system: input/output error; no other"},
		{"damaged, and no room for a note", func(own *content, c *Config) {
			own.tree.b[0], own.tree.b = 0, own.tree.b[:600]
			c.Slot = own.slot()
		}, "", "read verity superblock: there is none", "the starts before are not known: read note: the partition has 600 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			own := newContent(t, "own\n")
			var said []string
			say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
			c := Config{
				RootHash: own.hash, Slot: own.slot(), Name: "/dev/vda4", Tell: say, Log: say,
				Other: func(string) (Slot, func(), error) { return Slot{}, nil, errIO },
				ESP:   func() (boot.ESP, func(), error) { return nil, nil, errIO },
			}
			tt.change(own, &c)
			do, err := Check(c)
			if do != tt.do || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s, %v", do, err)
			}
			if tt.says != "" && !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, tt.says) }) {
				t.Errorf("said %q, want %q", said, tt.says)
			}
			for _, s := range said {
				if strings.ContainsAny(s, "\n\r") || strings.Contains(s, "%!") {
					t.Errorf("said %q", s)
				}
			}
		})
	}
}

func damagedThrice(own *content, _ *Config) {
	own.root[verity.BlockSize+7] ^= 1
	if err := note.Write(own.tree, note.Note{RootHash: own.hash, Starts: Patience - 1}); err != nil {
		panic(err)
	}
}

type broken struct{}

func (broken) ReadAt([]byte, int64) (int, error) { return 0, errIO }

var _ io.ReaderAt = broken{}
