// Package memory gives back to the machine what a burst of work has left.
//
// Go collects when the heap has grown by as much as was alive, and looks again
// after two minutes: a server that falls idle after ten thousand writes keeps
// up to as much garbage as data. The Keeper watches the runtime's own counters
// and collects once when the process has become quiet. It promises to stay out
// of the way of work: while memory is being allocated it does nothing, unless that is little
// beside what could be given back.
package memory

import (
	"context"
	"log/slog"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Config is what a Keeper needs from outside.
type Config struct {
	Log *slog.Logger
	// Every is the time between two looks. Default 4 s.
	Every time.Duration
	// Read returns the counters, Collect frees memory. Default: the runtime's.
	Read    func() Counters
	Collect func()
}

// Counters are those of the runtime, in bytes.
type Counters struct {
	Allocated uint64 // since the start, of all objects
	Objects   uint64 // heap that objects have now, dead ones with them
	Live      uint64 // heap that the last collection found alive
	Free      uint64 // heap that nothing uses and the machine has not got back
}

// Keeper collects when the process is quiet.
type Keeper struct{ cfg Config }

// New returns a keeper; it starts nothing.
func New(cfg Config) *Keeper {
	if cfg.Every == 0 {
		cfg.Every = 4 * time.Second
	}
	if cfg.Read == nil {
		cfg.Read = read
	}
	if cfg.Collect == nil {
		cfg.Collect = debug.FreeOSMemory
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Keeper{cfg: cfg}
}

// Run looks until ctx is done.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(k.cfg.Every)
	defer tick.Stop()
	before, collected := k.cfg.Read(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := k.cfg.Read()
		if worthwhile(before, now, time.Since(collected)) {
			began := time.Now()
			k.cfg.Collect()
			after := k.cfg.Read()
			k.cfg.Log.Debug("memory given back", "was", now.Objects+now.Free, "is", after.Objects+after.Free, "took", time.Since(began))
			now, collected = after, time.Now()
		}
		before = now
	}
}

// least is what a collection must promise: below that it costs more than it
// brings.
const least = 8 << 20

// awhile is the least time between two collections of a process that is at work.
const awhile = time.Minute

// worthwhile says whether to collect: the process allocated next to nothing since
// the last look, or so little that what could be freed would take it long to use
// again; and that is a good part of what lives.
//
// A server with 200 nodes is never quiet, their leases alone see to that, and after
// a burst it held three times what lived for as long as it took to allocate as much.
// So once in a while, which is a collection that costs next to nothing, it is enough
// that more is spare than lives, and that it is not being used up just now.
func worthwhile(before, now Counters, since time.Duration) bool {
	const quiet, part, looks = 16, 5, 16
	var dead uint64
	if now.Objects > now.Live {
		dead = now.Objects - now.Live
	}
	allocated, spare := now.Allocated-before.Allocated, dead+now.Free
	if since >= awhile && spare > max(now.Live, 4*least) && spare > 2*allocated {
		return true
	}
	if allocated > max(now.Live/quiet, least/4) && spare < looks*allocated {
		return false
	}
	return spare > max(now.Live/part, least)
}

func read() Counters {
	s := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(s)
	return Counters{Allocated: s[0].Value.Uint64(), Objects: s[1].Value.Uint64(), Live: s[2].Value.Uint64(), Free: s[3].Value.Uint64()}
}
