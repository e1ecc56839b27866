//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/vault/mark"
)

func TestMarkEncryption(t *testing.T) {
	vault := gpt.Table{Partitions: []gpt.Partition{{Name: "ESP"}, {Name: "var-crypt"}}}
	for name, c := range map[string]struct {
		credential string
		table      gpt.Table
		want       bool
	}{
		"nobody asks":        {"", gpt.Table{}, false},
		"asked":              {mark.Asked, gpt.Table{}, true},
		"not asked any more": {mark.NotAsked, gpt.Table{}, false},
		"it is":              {"", vault, true},
		"it is, and stays":   {mark.NotAsked, vault, true},
	} {
		credentials, path := t.TempDir(), filepath.Join(t.TempDir(), "writ/encryption")
		if c.credential != "" {
			if err := os.WriteFile(filepath.Join(credentials, filepath.Base(mark.CredentialPath)), []byte(c.credential), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := markEncryption(credentials, path, c.table); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
