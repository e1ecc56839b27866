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
}

// take reserves n bytes for a write. used is how much live data there is.
func (d *roomGuard) take(n int64, used func() int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.asked) > roomWindow {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(d.dir, &fs); err != nil {
			return fmt.Errorf("ask for free space of %s: %w", d.dir, err)
		}
		d.asked, d.free, d.used = now, int64(fs.Bavail)*fs.Bsize, used()
		d.before, d.recent = d.recent, 0
	}
	written := d.recent + d.before + n
	if free := d.free - 3*written; free < d.reserve { // log, backend, copied pages
		return fmt.Errorf("%w: the disk of %s has %d MiB free and %d MiB are kept in reserve",
			ErrNoSpace, d.dir, d.free>>20, d.reserve>>20)
	}
	// Live data counts, not the size of the file: compaction makes room again
	// without a stop.
	if d.used+written > d.quota {
		return fmt.Errorf("%w: the database holds %d of %d MiB", ErrNoSpace, d.used>>20, d.quota>>20)
	}
	d.recent += n
	return nil
}
