// Package durable writes files that must survive: keys, records, refs, backups.
// It watches nothing and keeps nothing in memory.
//
// It promises that a file is the old one or the new one, never a part of one,
// whenever the process is killed; and, but for Replace, that the new one is on
// the disk when the call returns, so that a power cut does not take it back.
// Every part of the project may import it: there is one way to write such a
// file. It needs a file system on which rename is atomic and fsync of a folder
// works: every Linux one that a data directory may lie on.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces a file by data, and has it on the disk when it returns.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	return Write(path, mode, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// Write replaces a file by what fill writes, and has it on the disk when it
// returns. When fill fails the old file stays, and its error is returned.
func Write(path string, mode os.FileMode, fill func(*os.File) error) error {
	return WriteVia(filepath.Dir(path), path, mode, fill)
}

// WriteVia is Write with the unfinished file in another folder of the same file
// system: for a folder in which every name counts, as one of Git refs.
func WriteVia(unfinished, path string, mode os.FileMode, fill func(*os.File) error) error {
	if err := replace(unfinished, path, mode, true, fill); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// Replace replaces a file in one step and leaves to the kernel when it reaches
// the disk. It is for what a restart of the machine makes worthless, or what is
// made anew from elsewhere; its readers take a file that a power cut has damaged
// for one that is not there.
func Replace(path string, data []byte, mode os.FileMode) error {
	return replace(filepath.Dir(path), path, mode, false, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// replace writes beside a file and renames. The unfinished file's name begins
// with a dot and is unlike every other: two processes may write the same path.
func replace(unfinished, path string, mode os.FileMode, sync bool, fill func(*os.File) error) (err error) {
	f, err := os.CreateTemp(unfinished, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("create file for %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreClosed(f.Close()), os.Remove(f.Name()))
		}
	}()
	if err := f.Chmod(mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := fill(f); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if sync {
		if err := f.Sync(); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("rename into %s: %w", path, err)
	}
	return nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// Rename moves a file or a folder, whose content is on the disk already, and has
// its new name there when it returns.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := Sync(filepath.Dir(to)); err != nil || filepath.Dir(from) == filepath.Dir(to) {
		return err
	}
	return Sync(filepath.Dir(from))
}

// Remove removes a file for good before it returns. One that is not there is
// removed.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return Sync(filepath.Dir(path))
}

// Sync brings the content of a file, or the names in a folder, to the disk.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
