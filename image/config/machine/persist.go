package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/image/config"
)

// keep does the steps on /var, each of which is on the disk before the next
// begins.
func (m *Machine) keep(steps []config.Step) error {
	for _, s := range steps {
		if s.Disk == config.Var {
			if err := do(m.path("var"), s); err != nil {
				return err
			}
		}
	}
	return nil
}

// erase does those on the EFI system partition, after keep.
func (m *Machine) erase(steps []config.Step) error {
	steps = slices.DeleteFunc(slices.Clone(steps), func(s config.Step) bool { return s.Disk != config.ESP })
	if len(steps) == 0 {
		return nil
	}
	return m.cfg.Disks.ESP(true, func(dir string) error {
		for _, s := range steps {
			if err := do(dir, s); err != nil {
				return err
			}
		}
		return nil
	})
}

func do(dir string, s config.Step) error {
	path := filepath.Join(dir, s.Path)
	switch s.Op {
	case config.Write:
		if err := replace(path, s.Data, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		// What is erased elsewhere because it is here must be here.
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, s.Data) {
			return fmt.Errorf("write %s: it does not read back: %w", path, errors.Join(err))
		}
	case config.Overwrite:
		if err := overwrite(path, s.Data); err != nil {
			return fmt.Errorf("overwrite %s: %w", path, err)
		}
	case config.Rename:
		if err := durable.Rename(path, filepath.Join(dir, s.To)); err != nil {
			return fmt.Errorf("rename %s: %w", path, err)
		}
	}
	return nil
}

// replace writes a file whole, and has it on the disk when it returns.
func replace(path string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // /var/lib/writ is for everybody to enter
		return err
	}
	if err := durable.WriteFile(path, data, mode); err != nil {
		return err
	}
	return durable.Sync(filepath.Dir(filepath.Dir(path))) // MkdirAll may have made the folder
}

// overwrite writes over a file where it lies on the disk.
func overwrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	return errors.Join(err, f.Sync(), f.Close())
}
