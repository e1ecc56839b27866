package receive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"github.com/writ-os/writ/reconciler/source/pack"
)

// waste is what a garbage collection finds.
type waste struct {
	repo  *repository
	packs []stored // each pack, without suffix
	loose []stored // each loose object
	young []plumbing.Hash

	spent     []string        // packs that are replaced
	looseGone []string        // files that are replaced or dropped
	wanted    []plumbing.Hash // objects of the new pack
	size      int64           // of the packs that are replaced
	done      Collected
}

// stored is a file that holds objects.
type stored struct {
	path    string
	size    int64
	young   bool
	objects []plumbing.Hash
}

// list reads which objects are in which file. Those that came after before are
// young: they stay, with all that they refer to, since what refers to them may
// be on its way.
func (w *waste) list(before time.Time) error {
	root := filepath.Join(w.repo.dir, "objects")
	paths, err := filepath.Glob(filepath.Join(root, "pack", "pack-*.pack"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		s := stored{path: strings.TrimSuffix(path, ".pack")}
		if err := s.look(path, before); err != nil {
			return err
		}
		if s.objects, err = packed(s.path); err != nil {
			return err
		}
		w.packs = append(w.packs, s)
	}
	paths, err = filepath.Glob(filepath.Join(root, "[0-9a-f][0-9a-f]", strings.Repeat("[0-9a-f]", 38)))
	if err != nil {
		return err
	}
	for _, path := range paths {
		s := stored{path: path, objects: []plumbing.Hash{plumbing.NewHash(filepath.Base(filepath.Dir(path)) + filepath.Base(path))}}
		if err := s.look(path, before); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		w.loose = append(w.loose, s)
	}
	for _, s := range slices.Concat(w.packs, w.loose) {
		if s.young {
			w.young = append(w.young, s.objects...)
		}
	}
	return nil
}

func (s *stored) look(path string, before time.Time) error {
	info, err := os.Stat(path)
	if err == nil {
		s.size, s.young = info.Size(), !info.ModTime().Before(before)
	}
	return err
}

// packed lists the objects of a pack.
func packed(base string) ([]plumbing.Hash, error) {
	index, err := pack.ReadIndex(base)
	if err != nil {
		return nil, err
	}
	it, err := index.Entries()
	if err != nil {
		return nil, err
	}
	defer it.Close()
	var out []plumbing.Hash
	for {
		e, err := it.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, e.Hash)
	}
}

// sort decides: packs with something that nobody needs are replaced, and loose
// objects packed or dropped. It reads no file.
func (w *waste) sort(seen reached) {
	stays := make(map[plumbing.Hash]bool)
	gone := make(map[plumbing.Hash]bool)
	var replaced []stored
	for _, p := range w.packs {
		whole := !slices.ContainsFunc(p.objects, func(h plumbing.Hash) bool { return !seen[h] })
		if !p.young && !whole {
			replaced = append(replaced, p)
			w.spent, w.size = append(w.spent, p.path), w.size+p.size
			continue
		}
		for _, h := range p.objects {
			stays[h] = true
		}
	}
	for _, l := range w.loose {
		if l.young && !seen[l.objects[0]] {
			continue
		}
		replaced = append(replaced, l)
		w.looseGone = append(w.looseGone, l.path)
	}
	for _, s := range replaced {
		for _, h := range s.objects {
			switch {
			case !seen[h]:
				gone[h] = true
			case !stays[h]:
				stays[h] = true
				w.wanted = append(w.wanted, h)
			}
		}
		w.done.Bytes += s.size
	}
	w.done.Objects, w.done.Packs, w.done.Loose = len(gone), len(w.spent), len(w.looseGone)
}

func (w *waste) idle() bool { return len(w.spent) == 0 && len(w.looseGone) == 0 }

// fewDeltas is the size of packs over which no differences are looked for:
// that takes them into memory.
const fewDeltas = 32 << 20

// write makes the new pack in dir and returns its name without suffix; "" when
// nothing of what goes is needed.
func (w *waste) write(dir string) (base string, err error) {
	if len(w.wanted) == 0 {
		return "", nil
	}
	w.repo.packs.RLock()
	defer w.repo.packs.RUnlock()
	st := openObjects(w.repo.dir)
	defer st.Close()
	tmp := filepath.Join(dir, "gc.pack")
	f, err := os.Create(tmp)
	if err != nil {
		return "", err
	}
	b := bufio.NewWriterSize(f, 1<<20)
	if w.size > fewDeltas {
		err = streamPack(b, st, w.wanted)
	} else {
		_, err = packfile.NewEncoder(b, st, false).Encode(w.wanted, 10)
	}
	if err = errors.Join(err, b.Flush(), f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("write pack: %w", err)
	}
	info, err := os.Stat(tmp)
	if err != nil {
		return "", err
	}
	w.done.Bytes -= info.Size()
	if err := os.MkdirAll(filepath.Join(dir, "objects", "pack"), 0o755); err != nil {
		return "", err
	}
	const any = 1 << 40 // our own objects were bounded when they came
	base, objs, err := pack.Store(tmp, dir, pack.Limits{Size: any, Object: any, Delta: any, Total: any, Objects: math.MaxInt32})
	if err == nil && len(objs) != len(w.wanted) {
		err = fmt.Errorf("write pack: %d of %d objects are in it", len(objs), len(w.wanted))
	}
	return base, err
}
