//go:build linux

package main

import (
	"slices"
	"testing"
)

const modulesList = `virtio_blk.ko virtio:d00000002v*
scsi_common.ko
scsi_mod.ko +scsi_common.ko
sd_mod.ko +scsi_common.ko +scsi_mod.ko scsi:t-0x0[07]*
libata.ko +scsi_common.ko +scsi_mod.ko
ahci.ko +scsi_common.ko +scsi_mod.ko +libata.ko pci:v*d*sv*sd*bc01sc06i01* pci:v00008086d00002652sv*sd*bc*sc*i*
erofs.ko always
`

func TestWanted(t *testing.T) {
	modules := parseModules(modulesList)
	if len(modules) != 7 || !modules[6].always || modules[0].always {
		t.Fatalf("%+v", modules)
	}
	for device, want := range map[string][]string{
		"virtio:d00000002v00001AF4": {"virtio_blk.ko"},
		"virtio:d00000001v00001AF4": nil,
		"scsi:t-0x00":               {"scsi_common.ko", "scsi_mod.ko", "sd_mod.ko"},
		"scsi:t-0x05":               nil,
		"pci:v00001022d00007901sv00001022sd00007901bc01sc06i01": {"scsi_common.ko", "scsi_mod.ko", "libata.ko", "ahci.ko"},
		"": nil,
	} {
		if got := wanted(modules, device); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", device, got, want)
		}
	}
}
