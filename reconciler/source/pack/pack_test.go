package pack

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/klauspost/compress/zlib"
)

var limits = Limits{Size: 8 << 20, Object: 4 << 20, Delta: 1 << 20, Total: 16 << 20, Objects: 100_000}

// builder writes packs that git would not.
type builder struct {
	bytes.Buffer
	n uint32
}

// add adds an object and returns where it begins.
func (b *builder) add(kind plumbing.ObjectType, length int, between, content []byte) int {
	if b.Len() == 0 {
		b.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	}
	at := b.Len()
	c, rest := byte(kind)<<4|byte(length&15), length>>4
	for rest > 0 {
		b.WriteByte(c | 0x80)
		c, rest = byte(rest&0x7f), rest>>7
	}
	b.WriteByte(c)
	b.Write(between)
	z := zlib.NewWriter(&b.Buffer)
	z.Write(content)
	z.Close()
	b.n++
	return at
}

func varint(n int) (out []byte) {
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

// offset is how far back the base of a difference lies.
func offset(n int) []byte {
	out := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		out = append([]byte{byte(n&0x7f) | 0x80}, out...)
	}
	return out
}

// bytes ends the pack.
func (b *builder) done() []byte {
	out := b.Bytes()
	binary.BigEndian.PutUint32(out[8:], b.n)
	sum := sha1.Sum(out)
	return append(bytes.Clone(out), sum[:]...)
}

func store(t testing.TB, pack []byte, l Limits) (dir, base string, objs []Object, err error) {
	t.Helper()
	dir = t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "objects", "pack"), 0o755); err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(dir, "in")
	if _, err := Spool(tmp, bytes.NewReader(pack), l); err != nil {
		return dir, "", nil, err
	}
	base, objs, err = Store(tmp, dir, l)
	return dir, base, objs, err
}

// What is taken in, git takes too, and finds the same objects.
func TestStoreAgreesWithGit(t *testing.T) {
	var b builder
	blob := bytes.Repeat([]byte("kind: ConfigMap\n"), 100)
	at := b.add(plumbing.BlobObject, len(blob), nil, blob)
	copyAll := append(append(varint(len(blob)), varint(len(blob)+1)...), 0x80|0x10|0x20, byte(len(blob)), byte(len(blob)>>8), 1, '!')
	second := b.Len()
	b.add(plumbing.OFSDeltaObject, len(copyAll), offset(second-at), copyAll)
	third := append(append(varint(len(blob)+1), varint(3)...), 3, 'a', 'b', 'c')
	b.add(plumbing.OFSDeltaObject, len(third), offset(b.Len()-second), third)
	abc := plumbing.ComputeHash(plumbing.BlobObject, []byte("abc"))
	fourth := append(append(varint(3), varint(2)...), 2, 'x', 'y')
	b.add(plumbing.REFDeltaObject, len(fourth), abc[:], fourth)
	dir, base, objs, err := store(t, b.done(), limits)
	if err != nil || len(objs) != 4 || objs[2].Hash != abc || objs[3].Hash != plumbing.ComputeHash(plumbing.BlobObject, []byte("xy")) {
		t.Fatalf("%v %v", objs, err)
	}
	out, err := exec.Command("git", "verify-pack", "-v", filepath.Join(dir, base+".idx")).CombinedOutput()
	if err != nil || strings.Count(string(out), " blob ") != 4 {
		t.Errorf("git verify-pack: %v\n%s", err, out)
	}
	if _, err := ReadIndex(filepath.Join(dir, base)); err != nil {
		t.Error(err)
	}
}

func TestStoreRefuses(t *testing.T) {
	small := []byte("a")
	delta := func(base, target int, ops ...byte) []byte {
		return append(append(varint(base), varint(target)...), ops...)
	}
	one := func(kind plumbing.ObjectType, length int, content []byte) []byte {
		var b builder
		b.add(kind, length, nil, content)
		return b.done()
	}
	from := func(d []byte) []byte {
		var b builder
		b.add(plumbing.BlobObject, 1, nil, small)
		b.add(plumbing.OFSDeltaObject, len(d), offset(b.Len()-12), d)
		return b.done()
	}
	bomb := func() []byte { // each doubles what it is made of
		var b builder
		at, n := b.add(plumbing.BlobObject, 1<<15, nil, bytes.Repeat(small, 1<<15)), 1<<15
		for n < 1<<40 {
			ops := bytes.Repeat([]byte{0x80 | 0x10 | 0x20, 0xff, 0xff}, 2*n/0xffff+1)
			next := b.Len()
			b.add(plumbing.OFSDeltaObject, len(delta(n, 2*n, ops[:6]...)), offset(next-at), delta(n, 2*n, ops[:6]...))
			at, n = next, 2*n
		}
		return b.done()
	}
	two := func(x, y []byte) []byte {
		var b builder
		b.add(plumbing.BlobObject, len(x), nil, x)
		b.add(plumbing.BlobObject, len(y), nil, y)
		return b.done()
	}
	commitOf := func(n int) []byte {
		var b builder
		at := b.add(plumbing.CommitObject, 1, nil, small)
		d := delta(1, n, bytes.Repeat([]byte{0x80 | 0x10, 1}, n)...)
		b.add(plumbing.OFSDeltaObject, len(d), offset(b.Len()-at), d)
		return b.done()
	}
	strange := func() []byte { // a thin pack
		var b builder
		d := delta(1, 1, 1, 'x')
		b.add(plumbing.REFDeltaObject, len(d), bytes.Repeat([]byte{7}, 20), d)
		return b.done()
	}
	whole := one(plumbing.BlobObject, 1, small)
	for name, tt := range map[string]struct {
		pack []byte
		big  bool
	}{
		"nothing":               {nil, false},
		"no pack":               {[]byte("<html>"), false},
		"half":                  {whole[:len(whole)/2], false},
		"no sum":                {whole[:len(whole)-20], false},
		"a byte after":          {append(bytes.Clone(whole), 0), false},
		"a gigabyte announced":  {one(plumbing.BlobObject, 1<<30, small), true},
		"an exabyte announced":  {one(plumbing.BlobObject, 1<<60, small), false},
		"longer than announced": {one(plumbing.BlobObject, 1, bytes.Repeat(small, 1000)), false},
		"a million announced":   {append([]byte("PACK\x00\x00\x00\x02\x00\x0f\x42\x40"), whole[12:]...), true},
		"fewer than announced":  {append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x02"), whole[12:]...), false},
		"more than announced":   {append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00"), whole[12:]...), false},
		"many announced":        {append([]byte("PACK\x00\x00\x00\x02\x00\x01\x00\x00"), whole[12:]...), false},
		"shorter than it says":  {one(plumbing.BlobObject, 1000, small), false},
		"the same twice":        {two(small, small), false},
		"a long commit":         {one(plumbing.CommitObject, MaxRaw+1, bytes.Repeat(small, MaxRaw+1)), true},
		"a long commit made":    {commitOf(MaxRaw + 1), true},
		"a long chain":          {chain(MaxChain + 1), true},
		"base not here":         {strange(), false},
		"kind 0":                {one(0, 1, small), false},
		"kind 5":                {one(5, 1, small), false},
		"difference of nothing": {one(plumbing.OFSDeltaObject, 1, small), false},
		"difference too long":   {from(delta(1, 1<<40, 1, 'x')), true},
		"difference a liar":     {from(delta(1, 100, 1, 'x')), false},
		"difference of another": {from(delta(7, 1, 1, 'x')), false},
		"difference past end":   {from(delta(1, 5, 0x80|0x10, 5)), false},
		"bomb":                  {bomb(), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, base, _, err := store(t, tt.pack, limits)
			if err == nil || base != "" || errors.Is(err, ErrTooLarge) != tt.big {
				t.Errorf("%q %v", base, err)
			}
		})
	}
}

// chain is a pack of differences of differences, n of them.
func chain(n int) []byte {
	var b builder
	text := func(i int) []byte { return fmt.Appendf(nil, "%08d", i) }
	at := b.add(plumbing.BlobObject, 8, nil, text(0))
	for i := range n {
		d := append(append(varint(8), append(varint(8), 8)...), text(i+1)...)
		next := b.Len()
		b.add(plumbing.OFSDeltaObject, len(d), offset(next-at), d)
		at = next
	}
	return b.done()
}

// As long a chain as git makes is taken in, and read by git.
func TestStoreTakesLongChains(t *testing.T) {
	dir, base, objs, err := store(t, chain(MaxChain), limits)
	if err != nil || len(objs) != MaxChain+1 {
		t.Fatalf("%d objects, %v", len(objs), err)
	}
	if out, err := exec.Command("git", "verify-pack", filepath.Join(dir, base+".idx")).CombinedOutput(); err != nil {
		t.Errorf("git verify-pack: %v\n%s", err, out)
	}
}

// A wide bomb: many differences that are alive at once.
func TestStoreBoundsMemory(t *testing.T) {
	var b builder
	data := bytes.Repeat([]byte("x"), 1<<19)
	at := b.add(plumbing.BlobObject, len(data), nil, data)
	same := append(append(varint(len(data)), varint(len(data))...), bytes.Repeat([]byte{0x80 | 0x40, 1}, 8)...)
	for range 20 { // each is the base of three, so that none can be let go in whatever order they are made
		b.add(plumbing.OFSDeltaObject, len(same), offset(b.Len()-at), same)
		first := b.Len()
		b.add(plumbing.OFSDeltaObject, len(same), offset(first-at), same)
		b.add(plumbing.OFSDeltaObject, len(same), offset(b.Len()-at), same)
		at = first
	}
	l := limits
	l.Total = 64 << 20
	if _, _, _, err := store(t, b.done(), l); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "in memory") {
		t.Errorf("%v", err)
	}
}

func TestSpoolStopsAtTheLimit(t *testing.T) {
	r := &counter{}
	if _, err := Spool(filepath.Join(t.TempDir(), "x"), r, Limits{Size: 1000, Objects: 1000}); !errors.Is(err, ErrTooLarge) || r.n > 1<<20 {
		t.Errorf("%v after %d bytes", err, r.n)
	}
}

type counter struct{ n int }

func (c *counter) Read(p []byte) (int, error) { c.n += len(p); return len(p), nil }

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a.yaml", ".gitignore", ".github", ".gitmodules", "git", "..a", "git~2", "ünïcode", "a:b", strings.Repeat("x", 255)} {
		if why := CheckName(name); why != "" {
			t.Errorf("%q: %s", name, why)
		}
	}
	for _, name := range []string{"", ".", "..", ".git", ".GIT", ".giT ", ".git...", ".git . .", "GIT~1", ".git::$INDEX_ALLOCATION", ".g\u200cit", "\ufeff.git", `.git\config`, "a/b", "a\x00b"} {
		if CheckName(name) == "" {
			t.Errorf("%q is allowed", name)
		}
	}
}

// Whatever the bytes are, Store ends within its bounds, and git takes what it
// takes.
func FuzzStore(f *testing.F) {
	var b builder
	at := b.add(plumbing.BlobObject, 5, nil, []byte("hello"))
	b.add(plumbing.OFSDeltaObject, 5, offset(b.Len()-at), append(append(varint(5), varint(2)...), 1, 'x'))
	f.Add(b.done()[:b.Len()])
	f.Add(b.done()[:20])
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 12 { // most bytes would not get past the sum
			sum := sha1.Sum(in)
			in = append(bytes.Clone(in), sum[:]...)
		}
		dir, base, objs, err := store(t, in, Limits{Size: 1 << 20, Object: 1 << 16, Delta: 1 << 16, Total: 1 << 20, Objects: 1000})
		if err != nil || base == "" {
			return
		}
		out, gitErr := exec.Command("git", "verify-pack", filepath.Join(dir, base+".idx")).CombinedOutput()
		if gitErr != nil {
			t.Errorf("%d objects; git verify-pack: %v\n%s", len(objs), gitErr, fmt.Sprint(string(out)))
		}
	})
}
