package tree

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/image/deb"
)

const modulesDir = "usr/lib/modules"

// Kernels returns the versions of the kernels whose modules are in t, sorted.
func (t *Tree) Kernels() []string {
	var all []string
	for at := range t.All() {
		if path.Dir(at) == modulesDir {
			all = append(all, path.Base(at))
		}
	}
	return all
}

// Modules is what CopyModules did.
type Modules struct {
	Kernel        string
	Kept, Dropped int
	// Needed are the modules that the list drops and that were kept, because a
	// kept one needs them: by path, which one.
	Needed map[string]string
}

// CopyModules copies the kernel's modules from src, which has one kernel, into
// t without those that the list drops, decompressed: the file system packs
// them better, and the initrd needs them so. Paths of the list begin below the
// kernel's directory: "kernel/fs/btrfs/". A dropped module that a kept one
// needs is kept. The indexes of modules are depmod's to make.
func (t *Tree) CopyModules(src *Tree, drop *List) (*Modules, error) {
	kernels := src.Kernels()
	if len(kernels) != 1 {
		return nil, fmt.Errorf("copy modules: there must be one kernel, and there are %d: %s", len(kernels), strings.Join(kernels, ", "))
	}
	base := modulesDir + "/" + kernels[0]
	below := New()
	for at, e := range src.All() {
		if rest, ok := strings.CutPrefix(at, base+"/"); ok {
			below.entries[rest] = e
		}
	}
	dropped, err := drop.take(below)
	if err != nil {
		return nil, fmt.Errorf("drop modules of %s: %w", kernels[0], err)
	}
	m := &Modules{Kernel: kernels[0], Needed: map[string]string{}}
	kept, err := keepModules(below, func(at string) bool { _, ok := dropped[at]; return !ok })
	if err != nil {
		return nil, fmt.Errorf("copy modules of %s: %w", kernels[0], err)
	}
	for _, k := range kept {
		if k.by != "" {
			m.Needed[k.at] = k.by
		}
		if err := t.Add(base+"/"+moduleFile(k.at), k.entry); err != nil {
			return nil, err
		}
	}
	m.Kept, m.Dropped = len(kept), len(modulePaths(below))-len(kept)
	for _, name := range []string{"modules.builtin", "modules.builtin.modinfo", "modules.order"} {
		e, ok := below.entries[name]
		if !ok {
			return nil, fmt.Errorf("copy modules of %s: there is no %s", kernels[0], name)
		}
		if err := t.Add(base+"/"+name, e); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// moduleFile is the path of a module that is not compressed.
func moduleFile(at string) string { return strings.TrimSuffix(at, ".xz") }

// moduleName is the name of a module in the kernel, which knows no dashes.
func moduleName(at string) string {
	return strings.ReplaceAll(strings.TrimSuffix(path.Base(moduleFile(at)), ".ko"), "-", "_")
}

// modulePaths returns the paths of modules by name.
func modulePaths(below *Tree) map[string]string {
	byName := map[string]string{}
	for at, e := range below.All() {
		if strings.HasSuffix(moduleFile(at), ".ko") && e.Mode.IsRegular() {
			byName[moduleName(at)] = at
		}
	}
	return byName
}

// keptModule is a module that stays.
type keptModule struct {
	at, by string // by is the one that needs it; "" when the list keeps it
	entry  Entry  // decompressed
	needs  []string
}

// keepModules returns the modules that are wanted and what they need. It
// decompresses them in rounds: first those that are wanted, then what these
// need, and so on.
func keepModules(below *Tree, want func(at string) bool) ([]keptModule, error) {
	byName := modulePaths(below)
	seen := map[string]bool{}
	var all, round []keptModule
	for _, at := range slices.Sorted(maps.Values(byName)) {
		if want(at) {
			round, seen[at] = append(round, keptModule{at: at}), true
		}
	}
	for len(round) > 0 {
		if err := readModules(below, round); err != nil {
			return nil, err
		}
		all = append(all, round...)
		var next []keptModule
		for _, k := range round {
			for _, name := range k.needs {
				// What is in no file is built into the kernel.
				if at, ok := byName[name]; ok && !seen[at] {
					next, seen[at] = append(next, keptModule{at: at, by: k.at}), true
				}
			}
		}
		round = next
	}
	return all, nil
}

// readModules reads what each of round holds and needs, on all processors.
func readModules(below *Tree, round []keptModule) error {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range round {
		k := &round[i]
		k.entry = below.entries[k.at]
		g.Go(func() error {
			b, err := unpack(k.at, k.entry.Data)
			if err == nil {
				k.entry.Data = Bytes(b)
				k.needs, err = moduleNeeds(b)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", k.at, err)
			}
			return nil
		})
	}
	return g.Wait()
}

const maxModule = 64 << 20

func unpack(at string, d Data) ([]byte, error) {
	r, err := d.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	z, err := deb.Decompress(at, r)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	b, err := io.ReadAll(io.LimitReader(z, maxModule+1))
	if err == nil && len(b) > maxModule {
		err = fmt.Errorf("it has more than %d bytes", maxModule)
	}
	return b, err
}

// moduleNeeds reads the modules that a module says it depends on: modpost
// wrote them into its .modinfo.
func moduleNeeds(b []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := f.Section(".modinfo")
	if s == nil {
		return nil, errors.New("it has no section .modinfo: it is no kernel module")
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	for field := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			names := strings.Split(list, ",")
			for i := range names {
				names[i] = strings.ReplaceAll(names[i], "-", "_")
			}
			return names, nil
		}
	}
	return nil, nil
}
