//go:build linux

package main

import (
	"testing"

	"github.com/writ-os/writ/image/gpt"
)

func TestMachineID(t *testing.T) {
	disk := func(id byte) gpt.Table {
		return gpt.Table{Partitions: []gpt.Partition{{Name: "ESP", GUID: gpt.GUID{9}}, {}, {Name: "var", GUID: gpt.GUID{id}}}}
	}
	const one = "cf82618de34e419caa7fb6427344d57e"
	for _, tt := range []struct {
		name, product string
		table         gpt.Table
		want          bool
	}{
		{"a firmware with a UUID", "4c4c4544-0043-3510-8052-b4c04f4a4e31\n", disk(1), false},
		{"a firmware without", "", disk(1), true},
		{"all zeros", "00000000-0000-0000-0000-000000000000\n", disk(1), true},
		{"all ones", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF\n", disk(1), true},
		{"the first start", "", gpt.Table{Partitions: []gpt.Partition{{Name: "ESP", GUID: gpt.GUID{9}}}}, false},
		{"a partition without a GUID", "", disk(0), false},
	} {
		id := machineID(tt.product, tt.table)
		if (id != "") != tt.want || tt.want && (len(id) != 32 || id != machineID("", tt.table) || id[12] != '4') {
			t.Errorf("%s: %q", tt.name, id)
		}
	}
	if machineID("", disk(1)) == machineID("", disk(2)) {
		t.Error("two disks are one machine")
	}
	// It does not change between versions.
	if got := machineID("", disk(1)); got != one {
		t.Errorf("%s, want %s", got, one)
	}
}
