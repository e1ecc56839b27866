//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"

	"github.com/writ-os/writ/image/gpt"
)

const (
	// machineIDFile is where systemd looks first for the ID of a machine whose
	// /etc/machine-id is empty (systemd-machine-id-setup(1)).
	machineIDFile = "/run/machine-id"
	// productFile is the UUID of the board, as systemd.machine_id=firmware takes it.
	productFile = "/sys/class/dmi/id/product_uuid"

	// The names of the partition that systemd-repart makes, plain or encrypted.
	stateLabel, vaultLabel = "var", "var-crypt"
)

// identify gives the machine a lasting ID where its firmware has none: systemd
// would draw another one at every start, and nobody could read the journal of the
// start before. On the very first start there is nothing yet to derive it from.
func identify(t gpt.Table) {
	product, _ := os.ReadFile(productFile) //nolint:errcheck // what is not there is empty
	id := machineID(string(product), t)
	if id == "" {
		return
	}
	if err := os.WriteFile(machineIDFile, []byte(id+"\n"), 0o444); err != nil {
		say("the machine has another ID at every start: %v", err)
	}
}

// machineID is the ID of a machine with this UUID of the board and this disk: of
// the state partition's GUID, which was drawn at random when it was made; neither
// tells the other. It is "" where the firmware has a UUID, by
// the rule of systemd (neither all zeros nor all ones), or where there is no such
// partition.
func machineID(product string, t gpt.Table) string {
	product = strings.ToLower(strings.TrimSpace(product))
	if strings.Trim(product, "0-") != "" && strings.Trim(product, "f-") != "" {
		return ""
	}
	for _, p := range t.Partitions {
		if (p.Name == stateLabel || p.Name == vaultLabel) && p.GUID != (gpt.GUID{}) {
			sum := sha256.Sum256(append([]byte("writ: machine ID\x00"), p.GUID[:]...))
			sum[6], sum[8] = sum[6]&0x0f|0x40, sum[8]&0x3f|0x80 // a UUID of version 4
			return hex.EncodeToString(sum[:16])
		}
	}
	return ""
}
