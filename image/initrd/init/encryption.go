//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/vault/mark"
)

// credentialsDir is where the boot stub puts those of the EFI system partition;
// see systemd-stub(7).
const credentialsDir = "/.extra/global_credentials"

// markEncryption tells the system that /var is to be encrypted, or is: the first
// is known from what the boot stub has put into the initrd, which is gone with it.
func markEncryption(credentials, path string, t gpt.Table) error {
	is := slices.ContainsFunc(t.Partitions, func(p gpt.Partition) bool { return p.Name == vaultLabel })
	asked, _ := os.ReadFile(filepath.Join(credentials, filepath.Base(mark.CredentialPath))) //nolint:errcheck // what is not there is empty
	if !is && string(asked) != mark.Asked {
		return nil
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
		return fmt.Errorf("say that /var is encrypted: %w", err)
	}
	return nil
}
