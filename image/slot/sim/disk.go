package sim

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/slot"
)

// piece is how much of a write reaches the disk in one step, in bytes.
const piece = 8 << 10

// Disk is a disk in memory.
type Disk struct {
	power *Power

	mu      sync.Mutex
	view    []byte // what is read
	lasting []byte
	pending []sector
	failing error
}

type sector struct {
	at int64
	b  []byte
}

var _ slot.Device = (*Disk)(nil)

// Size implements slot.Device.
func (d *Disk) Size() int64 { return int64(len(d.view)) }

// Fail lets every write fail with err from now on; nil ends it.
func (d *Disk) Fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing = err
}

// Damage turns a bit of what is on the disk.
func (d *Disk) Damage(at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.view[at] ^= 1
	d.lasting[at] ^= 1
}

// ReadAt implements slot.Device.
func (d *Disk) ReadAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.NewReader(d.view).ReadAt(p, off)
}

// WriteAt implements slot.Device.
func (d *Disk) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > d.Size() {
		return 0, fmt.Errorf("write %d bytes at %d: %w", len(p), off, io.ErrShortWrite)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for part := range chunks(p) {
		if d.failing != nil {
			return n, d.failing
		}
		// Cut here, some of it is there already.
		err := d.power.step()
		for i := 0; i < len(part); i += gpt.SectorSize {
			d.pending = append(d.pending, sector{off + int64(n+i), bytes.Clone(part[i:min(i+gpt.SectorSize, len(part))])})
		}
		if err != nil {
			return n, err
		}
		copy(d.view[off+int64(n):], part)
		n += len(part)
	}
	return n, nil
}

// Sync implements slot.Device.
func (d *Disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failing != nil {
		return d.failing
	}
	if err := d.power.step(); err != nil {
		return err
	}
	copy(d.lasting, d.view)
	d.pending = nil
	return nil
}

// restart is what a power failure leaves.
func (d *Disk) restart(c chance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.pending {
		if c.lasts() {
			copy(d.lasting[s.at:], s.b)
		}
	}
	copy(d.view, d.lasting)
	d.pending = nil
}

// chunks cuts p into pieces.
func chunks(p []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(p) > 0 {
			n := min(piece, len(p))
			if !yield(p[:n]) {
				return
			}
			p = p[n:]
		}
	}
}
