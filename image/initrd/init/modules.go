//go:build linux

package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// module is one that the initrd was packed with.
type module struct {
	file  string
	needs []string // files to load before it, in this order
	// matches are patterns of devices that it drives; see modules.alias of depmod(8).
	matches []string
	always  bool
}

// parseModules reads the packer's list: a line per module, of its file, what it
// needs with a plus, the devices that it is for, and "always" if it is for all
// machines.
func parseModules(list string) []module {
	var out []module
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		m := module{file: fields[0]}
		for _, f := range fields[1:] {
			if need, ok := strings.CutPrefix(f, "+"); ok {
				m.needs = append(m.needs, need)
			} else if f == "always" {
				m.always = true
			} else {
				m.matches = append(m.matches, f)
			}
		}
		out = append(out, m)
	}
	return out
}

// wanted are the files to load for a device, by its modalias, in their order.
func wanted(modules []module, device string) (files []string) {
	for _, m := range modules {
		if slices.ContainsFunc(m.matches, func(pattern string) bool {
			ok, err := path.Match(pattern, device)
			return ok && err == nil
		}) {
			files = append(append(files, m.needs...), m.file)
		}
	}
	return files
}

// loader loads modules, each once. Those of devices that are not there stay
// out: a machine needs few of them, and each takes its time and its memory.
type loader struct {
	modules []module
	done    map[string]bool // files
	seen    map[string]bool // devices
}

func newLoader() (*loader, error) {
	list, err := os.ReadFile("/modules.list")
	if err != nil {
		return nil, fmt.Errorf("read the list of modules: %w; the initrd is not whole, build it again", err)
	}
	return &loader{parseModules(string(list)), map[string]bool{}, map[string]bool{}}, nil
}

// devices loads what the devices need that have come since the last time.
func (l *loader) devices() {
	names, _ := filepath.Glob("/sys/bus/*/devices/*") //nolint:errcheck // the pattern is good
	for _, name := range names {
		if l.seen[name] {
			continue
		}
		l.seen[name] = true
		if alias, err := os.ReadFile(filepath.Join(name, "modalias")); err == nil {
			l.load(wanted(l.modules, strings.TrimSpace(string(alias))))
		}
	}
}

// always loads what every machine needs.
func (l *loader) always() {
	for _, m := range l.modules {
		if m.always {
			l.load(append(slices.Clone(m.needs), m.file))
		}
	}
}

// named loads modules by their files. What there is not is part of the kernel.
func (l *loader) named(files []string) {
	for _, m := range l.modules {
		if slices.Contains(files, m.file) {
			l.load(append(slices.Clone(m.needs), m.file))
		}
	}
}

// all loads the rest: a disk may be behind a device that says nothing of
// itself.
func (l *loader) all() {
	for _, m := range l.modules {
		l.load([]string{m.file})
	}
}

// load loads files. What does not load is said and no more: its hardware may not
// be there.
func (l *loader) load(files []string) {
	for _, file := range files {
		if l.done[file] {
			continue
		}
		l.done[file] = true
		if err := loadModule("/modules/" + file); err != nil {
			say("module %s: %v", file, err)
		}
	}
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(path, ".ko") { // the kernel unpacks it
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}
