package store

import (
	"fmt"
	"sync"
	"syscall"
	"time"
)

// roomWindow is how long an answer about free room is taken for true. It is
// longer than etcd takes to commit its backend, so that what was written in
// the window before the last is in every answer.
const roomWindow = 250 * time.Millisecond

// roomGuard refuses writes before etcd runs out of disk or of its quota. etcd
// ends the process when a write to its log fails; and what it says of its size
// lags behind, so that the guard counts what was written meanwhile.
type roomGuard struct {
	dir            string
	reserve, quota int64

	mu             sync.Mutex
	asked          time.Time
	free, used     int64 // when asked
	recent, before int64 // written in this window, and in the one before
	refused        error // why a write of any size is refused, as of the last look
}

// full says why no write is taken now; nil when some are.
func (d *roomGuard) full() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused
}

// look asks how much room there is. One that had none has some again when there
// is an eighth more than has to be: the lead must not go to and fro.
func (d *roomGuard) look(used func() int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ask(used) != nil {
		return // take says so
	}
	slack := int64(0)
	if d.refused != nil {
		slack = 1
	}
	d.refused = d.fits(0, d.reserve+slack*d.reserve/8, d.quota-slack*d.quota/64)
}

// ask looks at the disk anew when what is known is too old.
func (d *roomGuard) ask(used func() int64) error {
	now := time.Now()
	if now.Sub(d.asked) <= roomWindow {
		return nil
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &fs); err != nil {
		return fmt.Errorf("ask for free space of %s: %w", d.dir, err)
	}
	d.asked, d.free, d.used = now, int64(fs.Bavail)*fs.Bsize, used()
	d.before, d.recent = d.recent, 0
	return nil
}

// fits says whether n bytes leave the reserve of the disk and the quota.
func (d *roomGuard) fits(n, reserve, quota int64) error {
	written := d.recent + d.before + n
	if free := d.free - 3*written; free < reserve { // log, backend, copied pages
		return fmt.Errorf("%w: the disk of %s has %d MiB free and %d MiB are kept in reserve",
			ErrNoSpace, d.dir, d.free>>20, d.reserve>>20)
	}
	// Live data counts, not the size of the file: compaction makes room again
	// without a stop.
	if d.used+written > quota {
		return fmt.Errorf("%w: the database holds %d of %d MiB: delete objects, or raise --quota-backend-bytes", ErrNoSpace, d.used>>20, d.quota>>20)
	}
	return nil
}

// take reserves n bytes for a write. used is how much live data there is.
func (d *roomGuard) take(n int64, used func() int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ask(used); err != nil {
		return err
	}
	if err := d.fits(n, d.reserve, d.quota); err != nil {
		return err
	}
	d.recent += n
	return nil
}
