package gpt

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
)

// journal is a disk that remembers its writes, so that a test can cut the power
// between any two and lose any sectors that were not yet synced.
type journal struct {
	disk
	durable []byte // as of the last Sync
	pending []sector
	crash   func(durable []byte, pending []sector)
}

type sector struct {
	offset int64
	b      []byte
}

func (j *journal) WriteAt(p []byte, off int64) (int, error) {
	for i := 0; i < len(p); i += SectorSize {
		j.pending = append(j.pending, sector{off + int64(i), bytes.Clone(p[i : i+SectorSize])})
		j.crash(j.durable, j.pending)
	}
	return j.disk.WriteAt(p, off)
}

func (j *journal) Sync() error {
	j.crash(j.durable, j.pending)
	copy(j.durable, j.b)
	j.pending = nil
	j.crash(j.durable, nil)
	return nil
}

// everyCut runs act on a disk and hands check the disk as it may look after a
// power failure: after each sector in order, and with sectors since the last
// Sync lost in random order, as a disk's cache may do.
func everyCut(before []byte, act func(Device) error, check func(*disk)) error {
	random := rand.New(rand.NewPCG(1, 2))
	j := &journal{disk: disk{bytes.Clone(before)}, durable: bytes.Clone(before)}
	j.crash = func(durable []byte, pending []sector) {
		for _, share := range []float64{1, random.Float64()} {
			d := &disk{bytes.Clone(durable)}
			for _, s := range pending {
				if random.Float64() < share {
					copy(d.b[s.offset:], s.b)
				}
			}
			check(d)
		}
	}
	return act(j)
}

func TestPowerFailure(t *testing.T) {
	const size = 64 << 10
	old := Table{DiskGUID: id(9), Partitions: []Partition{
		{Type: TypeRootX8664, GUID: id(1), Name: "root_1", First: 40, Last: 47},
		{Type: TypeRootX8664Verity, GUID: id(2), Name: "verity_1", First: 48, Last: 48},
	}}
	changed := Table{DiskGUID: id(9), Partitions: []Partition{
		{Type: TypeRootX8664, GUID: id(3), Name: "root_2", First: 40, Last: 47},
		{Type: TypeRootX8664Verity, GUID: id(4), Name: "verity_2", First: 48, Last: 48},
	}}
	acts := map[string]func(Device) error{
		"update": func(d Device) error {
			return UpdatePartition(d, size, Change{1, id(3), "root_2"}, Change{2, id(4), "verity_2"})
		},
		"write": func(d Device) error { return Write(d, changed, size) },
	}
	damages := map[string]func([]byte){
		"whole":          func([]byte) {},
		"primary header": func(b []byte) { clear(b[512:1024]) },
		"primary array":  func(b []byte) { b[1024]++ },
		"backup header":  func(b []byte) { clear(b[size-512:]) },
		"backup array":   func(b []byte) { b[size-1024]++ },
	}
	for name, act := range acts {
		for what, damage := range damages {
			if name == "write" && what[0] == 'p' {
				continue // Write promises nothing when only the backup is left
			}
			d := &disk{make([]byte, size)}
			if err := Write(d, old, size); err != nil {
				t.Fatal(err)
			}
			damage(d.b)
			var olds, news int
			err := everyCut(d.b, act, func(d *disk) {
				switch got, err := Parse(d, size); {
				case err == nil && reflect.DeepEqual(got, old):
					olds++
				case err == nil && reflect.DeepEqual(got, changed):
					news++
				default:
					t.Fatalf("%s, %s: after a power failure: %+v, %v", name, what, got, err)
				}
				// The next attempt ends where this one would have.
				if err := acts["update"](d); err != nil {
					t.Fatalf("%s, %s: second attempt: %v", name, what, err)
				}
				if got, err := Parse(d, size); err != nil || !reflect.DeepEqual(got, changed) {
					t.Fatalf("%s, %s: after the second attempt: %+v, %v", name, what, got, err)
				}
			})
			if err != nil || olds < 30 || news < 30 {
				t.Errorf("%s, %s: %v, %d old, %d new tables seen", name, what, err, olds, news)
			}
		}
	}
}

type failing struct {
	disk
	left int
}

var errDisk = errors.New("no such device")

func (f *failing) WriteAt(p []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errDisk
	}
	return f.disk.WriteAt(p, off)
}

func (f *failing) Sync() error {
	if f.left--; f.left < 0 {
		return errDisk
	}
	return nil
}

// A disk that fails at any call is reported, and not written to any more.
func TestWriteErrors(t *testing.T) {
	for n := range 6 {
		f := &failing{disk: *written(t, sample()), left: n}
		if err := UpdatePartition(f, testSize, Change{1, id(5), "x"}); !errors.Is(err, errDisk) || f.left != -1 {
			t.Errorf("%d calls: %v, %d", n, err, f.left)
		}
		if _, err := Parse(f, testSize); err != nil {
			t.Errorf("%d calls: %v", n, err)
		}
	}
}
