//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-os/writ/image/verity/superblock"
)

// A root file system whose tree cannot be read or believed is not mounted, and one
// sentence says why.
func TestRootIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	p := pair{data: filepath.Join(dir, "data"), tree: filepath.Join(dir, "tree")}
	good, err := superblock.Superblock{DataBlocks: 300, Salt: []byte{1}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	good = append(good, make([]byte, superblock.Size)...)[:superblock.Size]
	changed := append([]byte{}, good...)
	changed[0] ^= 1
	for name, tt := range map[string]struct {
		tree []byte
		want string
	}{
		"no tree":       {nil, "open the hash tree: open " + p.tree + ": no such file or directory"},
		"a tree cut":    {good[:100], "read the hash tree on " + p.tree + ": EOF; check the disk"},
		"a tree forged": {changed, "; write the image to the disk again"},
	} {
		if err := os.RemoveAll(p.tree); err != nil {
			t.Fatal(err)
		}
		if tt.tree != nil {
			if err := os.WriteFile(p.tree, tt.tree, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		device, err := openVerity(p, options{hash: testHash})
		if err == nil || device != "" || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q, %v", name, device, err)
		}
		t.Logf("Writ cannot start: %v. The machine restarts in 10 seconds.", err)
	}
}
