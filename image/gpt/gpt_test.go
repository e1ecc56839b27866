package gpt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const testSize = 8 << 20

func id(b byte) GUID {
	return GUID(bytes.Repeat([]byte{b}, 16))
}

// sample has a hole: numbers are what the kernel names devices by.
func sample() Table {
	return Table{DiskGUID: id(9), Partitions: []Partition{
		{Type: TypeESP, GUID: id(1), Name: "ESP", First: 2048, Last: 4095},
		{Type: TypeRootX8664, GUID: id(2), Name: "root_1", First: 4096, Last: 6143, Attributes: ReadOnly},
		{},
		{Type: TypeRootX8664Verity, GUID: id(3), Name: "Prüfbaum 🌲", First: 6144, Last: 6144},
	}}
}

type disk struct{ b []byte }

func (d *disk) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(d.b).ReadAt(p, off) }
func (d *disk) WriteAt(p []byte, off int64) (int, error) {
	return copy(d.b[off:], p), nil
}
func (d *disk) Sync() error { return nil }

func written(t *testing.T, table Table) *disk {
	t.Helper()
	d := &disk{make([]byte, testSize)}
	if err := Write(d, table, testSize); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRoundTrip(t *testing.T) {
	d := written(t, sample())
	for _, damage := range []struct {
		what string
		do   func(b []byte)
	}{
		{"none", func([]byte) {}},
		{"primary header gone", func(b []byte) { clear(b[512:1024]) }},
		{"primary entries", func(b []byte) { b[1024+200]++ }},
		{"primary checksum", func(b []byte) { b[512+17]++ }},
		{"backup header gone", func(b []byte) { clear(b[testSize-512:]) }},
		{"protective MBR gone", func(b []byte) { clear(b[:512]) }},
	} {
		b := bytes.Clone(d.b)
		damage.do(b)
		got, err := Parse(bytes.NewReader(b), testSize)
		if err != nil || !reflect.DeepEqual(got, sample()) {
			t.Errorf("%s: %+v, %v", damage.what, got, err)
		}
	}
}

// An image on a larger disk keeps its backup where the image ended.
func TestBackupInTheMiddle(t *testing.T) {
	b := append(written(t, sample()).b, make([]byte, 4<<20)...)
	before := &disk{make([]byte, len(b))} // what the disk had before; its backup is left
	if err := Write(before, Table{DiskGUID: id(8)}, int64(len(b))); err != nil {
		t.Fatal(err)
	}
	copy(b[len(b)-33*512:], before.b[len(b)-33*512:])
	b[1024]++
	if got, err := Parse(bytes.NewReader(b), int64(len(b))); err != nil || !reflect.DeepEqual(got, sample()) {
		t.Fatalf("%+v, %v", got, err)
	}
	d := &disk{b}
	if err := UpdatePartition(d, int64(len(b)), Change{1, id(7), "x"}); err != nil {
		t.Fatal(err)
	}
	clear(b[512:1024])
	if got, err := Parse(bytes.NewReader(b), testSize); err != nil || got.Partitions[0].GUID != id(7) {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestUpdateRepairs(t *testing.T) {
	want := sample()
	want.Partitions[1].GUID, want.Partitions[1].Name = id(0x22), "root_2"
	want.Partitions[3].GUID, want.Partitions[3].Name = id(0x33), "verity_2"
	changes := []Change{{2, id(0x22), "root_2"}, {4, id(0x33), "verity_2"}}
	whole := written(t, want)
	for what, damage := range map[string]func([]byte){
		"none":           func([]byte) {},
		"primary header": func(b []byte) { clear(b[512:1024]) },
		"primary array":  func(b []byte) { b[1024]++ },
		"backup header":  func(b []byte) { clear(b[testSize-512:]) },
		"backup array":   func(b []byte) { b[testSize-1024]++ },
	} {
		d := written(t, sample())
		damage(d.b)
		if err := UpdatePartition(d, testSize, changes...); err != nil {
			t.Errorf("%s: %v", what, err)
		} else if !bytes.Equal(d.b, whole.b) {
			t.Errorf("%s: both copies are not as if written afresh", what)
		}
	}
}

func TestRefuse(t *testing.T) {
	for want, change := range map[string]func(*Table){
		"has no GUID":           func(t *Table) { t.DiskGUID = GUID{} },
		"partition 1 has no":    func(t *Table) { t.Partitions[0].GUID = GUID{} },
		"same GUID":             func(t *Table) { t.Partitions[1].GUID = id(1) },
		"overlap":               func(t *Table) { t.Partitions[3].First = 5000 },
		"sectors 33 to 4095":    func(t *Table) { t.Partitions[0].First = 33 },
		"sectors 4096 to 16351": func(t *Table) { t.Partitions[1].Last = testSize/512 - 33 },
		"sectors 4096 to 4095":  func(t *Table) { t.Partitions[1].Last = 4095 },
		"37 UTF-16 units":       func(t *Table) { t.Partitions[0].Name = strings.Repeat("x", 37) },
		"cannot be written":     func(t *Table) { t.Partitions[0].Name = "a\x00b" },
		"129 partitions":        func(t *Table) { t.Partitions = make([]Partition, 129) },
	} {
		table := sample()
		change(&table)
		if _, _, err := table.Encode(testSize); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for _, size := range []int64{0, 1, 512, 1536, 34 << 10} {
		if _, _, err := sample().Encode(size); err == nil {
			t.Errorf("encoded for %d bytes", size)
		}
		if _, err := Parse(bytes.NewReader(make([]byte, size)), size); err == nil {
			t.Errorf("parsed %d bytes of nothing", size)
		}
	}
	d := written(t, sample())
	before := bytes.Clone(d.b)
	for _, c := range []Change{{0, id(5), "x"}, {3, id(5), "x"}, {5, id(5), "x"}, {1, id(2), "x"}, {1, GUID{}, "x"}, {1, id(5), strings.Repeat("x", 37)}} {
		if err := UpdatePartition(d, testSize, c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	if !bytes.Equal(d.b, before) {
		t.Error("a refused change wrote to the disk")
	}
}

func TestGUID(t *testing.T) {
	const text = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
	if TypeESP.String() != text || TypeESP.swapped().swapped() != TypeESP {
		t.Error(TypeESP)
	}
	if d := TypeESP.swapped(); hex.EncodeToString(d[:]) != "28732ac11ff8d211ba4b00a0c93ec93b" {
		t.Errorf("on disk: %x", d)
	}
	for _, s := range []string{"", text + "0", strings.ReplaceAll(text, "-", "0"), strings.Replace(text, "c", "g", 1)} {
		if _, err := ParseGUID(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
	sum := sha256.Sum256(nil)
	a, b, err := VerityGUIDs(sum[:])
	if err != nil || a.String() != "e3b0c442-98fc-1c14-9afb-f4c8996fb924" || b.String() != "27ae41e4-649b-934c-a495-991b7852b855" {
		t.Error(a, b, err)
	}
	if _, _, err := VerityGUIDs(sum[:31]); err == nil {
		t.Error("31 bytes were accepted")
	}
}

// Another program reads the same from both copies.
func TestSgdisk(t *testing.T) {
	sgdisk, err := exec.LookPath("sgdisk")
	if err != nil {
		t.Skip("sgdisk is not installed")
	}
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, written(t, sample()).b, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(sgdisk, "--verify", "--print", "--info=4", file).CombinedOutput()
	for _, want := range []string{"No problems found", "09090909-0909", "root_1", "EF00", "2C7357ED-EBD2-46D9-AEC1-23D437EC2BF5", "First sector: 6144", "Prüfbaum"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("no %q: %v\n%s", want, err, out)
		}
	}
}

// FuzzParse makes a header of whatever values and gives it the right checksums,
// so that it is the values that are looked at.
func FuzzParse(f *testing.F) {
	const size = 64 << 10
	array := make([]byte, 512)
	c := replica{count: 4, size: entrySize, array: array}
	for i, p := range sample().Partitions[:2] {
		p.First, p.Last = uint64(40+i), uint64(41+i)
		c.putPartition(i, p)
	}
	f.Add(uint64(127), uint64(34), uint64(90), uint64(2), uint32(4), uint32(128), array, true)
	f.Add(uint64(1), uint64(34), uint64(90), uint64(100), uint32(4), uint32(128), array, false)
	f.Fuzz(func(t *testing.T, other, first, last, arrayAt uint64, count, entry uint32, array []byte, primary bool) {
		d := &disk{make([]byte, size)}
		c := replica{at: 1, other: other, first: first, last: last, disk: id(9), arrayAt: arrayAt, count: count, size: entry}
		if !primary {
			c.at = size/512 - 1
		}
		if n := uint64(count) * uint64(entry); n <= size && arrayAt <= size/512 && arrayAt*512+n <= size {
			c.array = d.b[arrayAt*512:][:n]
			copy(c.array, array)
		}
		copy(d.b[c.at*512:], c.header())
		table, err := Parse(d, size)
		if err != nil {
			return
		}
		for i, p := range table.Partitions {
			if !p.Used() {
				continue
			}
			if p.Offset() < 1024 || p.Size() <= 0 || p.Offset()+p.Size() > size {
				t.Fatalf("partition %d is outside the disk: %+v", i+1, p)
			}
			if UpdatePartition(d, size, Change{i + 1, id(0x77), "x"}) != nil {
				return
			}
			after, err := Parse(d, size)
			if err != nil || after.Partitions[i].GUID != id(0x77) {
				t.Fatalf("after an update: %+v, %v", after, err)
			}
			break
		}
	})
}
