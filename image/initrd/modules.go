package initrd

import (
	"fmt"
	"path"
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
