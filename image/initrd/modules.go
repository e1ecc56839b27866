package initrd

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Required is what no image boots without: the modules by which the kernel
// verifies and mounts the root file system.
var Required = []string{"dm_verity", "erofs"}

// Storage are the disks that an image can lie on: of virtual machines, and of
// most machines. What a kernel does not have is left out.
var Storage = []string{
	"virtio_blk", "virtio_scsi", "nvme", "sd_mod", "ahci", "ata_piix",
	"hv_storvsc", "xen_blkfront", "vmw_pvscsi", "mptspi",
	"xhci_pci", "ehci_pci", "uas", "usb_storage", "sdhci_pci", "mmc_block",
	"megaraid_sas", "mpt3sas", "hpsa", "smartpqi", "aacraid",
}

// Spare is what the EFI system partition is mounted with, by a machine whose root
// file system is damaged. No device asks for them. What a kernel does not have as a
// module is part of it.
var Spare = []string{"vfat", "nls_cp437", "nls_ascii"}

// Modules is the order in which modules are to be loaded so that the wanted ones
// come up, and the wanted ones that there is no file of. dep is modules.dep of
// depmod(8): "file: files it needs", the most basic one last. Dashes and
// underscores in names are the same, as everywhere with modules.
func Modules(dep string, wanted []string) (order, missing []string, err error) {
	type module struct {
		file  string
		needs []string
	}
	all := map[string]module{}
	for i, line := range strings.Split(strings.TrimSpace(dep), "\n") {
		file, needs, ok := strings.Cut(line, ":")
		if line != "" && (!ok || file == "") {
			return nil, nil, fmt.Errorf("read modules.dep: line %d is not \"file: files it needs\"", i+1)
		}
		all[moduleName(file)] = module{file, strings.Fields(needs)}
	}
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(name string) error
	visit = func(name string) error {
		m, ok := all[name]
		switch {
		case !ok:
			return fmt.Errorf("read modules.dep: %s is needed, and has no line of its own", name)
		case state[name] == visiting:
			return fmt.Errorf("read modules.dep: %s needs itself", name)
		case state[name] == done:
			return nil
		}
		state[name] = visiting
		for i := len(m.needs) - 1; i >= 0; i-- {
			if err := visit(moduleName(m.needs[i])); err != nil {
				return err
			}
		}
		state[name] = done
		order = append(order, m.file)
		return nil
	}
	for _, name := range wanted {
		if _, ok := all[moduleName(name)]; !ok {
			missing = append(missing, name)
			continue
		}
		if err := visit(moduleName(name)); err != nil {
			return nil, nil, err
		}
	}
	return order, missing, nil
}

// driver is a module of an initrd.
type driver struct {
	file    string
	needs   []string // files, in the order in which they are loaded
	aliases []string // patterns of devices
	always  bool
}

// line is what the init program reads of it.
func (m driver) line() string {
	fields := []string{plain(m.file)}
	for _, n := range m.needs {
		fields = append(fields, "+"+plain(n))
	}
	fields = append(fields, m.aliases...)
	if m.always {
		fields = append(fields, "always")
	}
	return strings.Join(fields, " ")
}

// plain is the name of a module's file in the initrd, where it is unpacked.
func plain(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return name + ".ko"
}

// modules are those to pack, each behind those that it needs.
func (p Parts) modules() ([]driver, error) {
	var text [3]string
	for i, name := range []string{"modules.dep", "modules.builtin", "modules.alias"} {
		b, err := fs.ReadFile(p.Modules, name)
		if err != nil {
			return nil, fmt.Errorf("read modules: %w", err)
		}
		text[i] = string(b)
	}
	dep, inside, aliases := text[0], text[1], parseAliases(text[2])
	optional := p.Optional
	if optional == nil {
		optional = Storage
	}
	required, missing, err := Modules(dep, Required)
	if err != nil {
		return nil, err
	}
	for _, name := range missing {
		if !builtin(inside, name) {
			return nil, fmt.Errorf("the kernel has no module %s, without which no image boots", name)
		}
	}
	order, _, err := Modules(dep, slices.Concat(optional, Required, Spare))
	if err != nil {
		return nil, err
	}
	out := make([]driver, len(order))
	for i, file := range order {
		needs, _, err := Modules(dep, []string{moduleName(file)})
		if err != nil {
			return nil, err
		}
		out[i] = driver{file, needs[:len(needs)-1], aliases[moduleName(file)], slices.Contains(required, file)}
	}
	return out, nil
}

// parseAliases reads modules.alias of depmod(8), "alias PATTERN MODULE", into
// the patterns of each module. Devices name themselves by their bus; those of
// numbers and names are for other programs.
func parseAliases(text string) map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == "alias" && strings.Contains(f[1], ":") {
			name := moduleName(f[2])
			out[name] = append(out[name], f[1])
		}
	}
	return out
}

// builtin says whether a module is part of the kernel itself; list is
// modules.builtin, a file per line.
func builtin(list, name string) bool {
	for line := range strings.Lines(list) {
		if moduleName(strings.TrimSpace(line)) == moduleName(name) {
			return true
		}
	}
	return false
}

// moduleName is the name the kernel has for a module's file.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}
