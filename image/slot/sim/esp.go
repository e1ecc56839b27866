package sim

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/writ-os/writ/image/slot/boot"
)

// ESP is an EFI system partition in memory.
type ESP struct {
	power *Power

	mu      sync.Mutex
	view    map[string][]byte
	lasting map[string][]byte
	pending []change
}

// change is something that is not synced. It makes of files what it may make of
// the disk.
type change func(files map[string][]byte, c chance)

var _ boot.ESP = (*ESP)(nil)

// List implements boot.ESP.
func (e *ESP) List() ([]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.view)), nil
}

// Open implements boot.ESP.
func (e *ESP) Open(name string) (boot.File, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, ok := e.view[name]
	if !ok {
		return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	return file{bytes.NewReader(b)}, nil
}

type file struct{ *bytes.Reader }

func (file) Close() error { return nil }

// Create implements boot.ESP.
func (e *ESP) Create(name string, r io.Reader) error {
	all, err := io.ReadAll(r)
	e.mu.Lock()
	defer e.mu.Unlock()
	begun := len(e.pending)
	n := 0
	// The name may last, with none or some of the content.
	cut := e.step(func(files map[string][]byte, c chance) {
		if c.lasts() {
			files[name] = torn(all[:min(n+piece, len(all))], c)
		}
	})
	if cut != nil {
		return cut
	}
	e.view[name] = nil
	for part := range chunks(all) {
		if err := e.power.step(); err != nil {
			return err
		}
		n += len(part)
		e.view[name] = all[:n]
	}
	if err != nil {
		return err
	}
	if err := e.power.step(); err != nil { // fsync
		return err
	}
	e.lasting[name] = all
	e.pending = slices.Delete(e.pending, begun, begun+1)
	return nil
}

// torn is a file of which not all was written.
func torn(b []byte, c chance) []byte {
	out := bytes.Clone(b[:c.IntN(len(b)+1)])
	for i := 0; i < len(out); i += 512 {
		if !c.lasts() {
			clear(out[i:min(i+512, len(out))])
		}
	}
	return out
}

// Rename implements boot.ESP.
func (e *ESP) Rename(from, to string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, ok := e.view[from]
	if !ok {
		return fmt.Errorf("rename %s: %w", from, fs.ErrNotExist)
	}
	err := e.step(func(files map[string][]byte, c chance) {
		if old, ok := files[from]; ok && c.lasts() {
			files[to] = old
			if c.lasts() {
				delete(files, from)
			}
		}
	})
	if err != nil {
		return err
	}
	delete(e.view, from)
	e.view[to] = b
	return nil
}

// Remove implements boot.ESP.
func (e *ESP) Remove(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.view[name]; !ok {
		return fmt.Errorf("remove %s: %w", name, fs.ErrNotExist)
	}
	err := e.step(func(files map[string][]byte, c chance) {
		if c.lasts() {
			delete(files, name)
		}
	})
	if err != nil {
		return err
	}
	delete(e.view, name)
	return nil
}

// Sync implements boot.ESP.
func (e *ESP) Sync() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.power.step(); err != nil {
		return err
	}
	e.lasting = maps.Clone(e.view)
	e.pending = nil
	return nil
}

// step is a change that may or may not last from now on.
func (e *ESP) step(c change) error {
	err := e.power.step()
	e.pending = append(e.pending, c)
	return err
}

// restart is what a power failure leaves.
func (e *ESP) restart(c chance) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.pending {
		p(e.lasting, c)
	}
	e.view, e.pending = maps.Clone(e.lasting), nil
}
