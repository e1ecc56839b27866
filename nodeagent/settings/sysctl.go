package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// errInvalid is how the kernel refuses a value.
var errInvalid = unix.EINVAL

// maxSysctl bounds what is read of a sysctl, in bytes.
const maxSysctl = 64 << 10

// errLarge says that a sysctl is more than can be given back.
var errLarge = errors.New("its value is too large to be given back")

// sysctls are those of the machine: the files below /proc/sys. No name leads out
// of there.
type sysctls struct{ dir string }

func (s sysctls) read(at string) Reading {
	var b []byte
	err := s.open(at, os.O_RDONLY, func(f *os.File) error {
		var err error
		if b, err = io.ReadAll(io.LimitReader(f, maxSysctl+1)); err == nil && len(b) > maxSysctl {
			err = errLarge
		}
		return err
	})
	return Reading{Value: strings.TrimRight(string(b), "\n"), Err: err}
}

// write sets a sysctl, in the one call by which the kernel takes a value.
func (s sysctls) write(at, value string) error {
	return s.open(at, os.O_WRONLY|os.O_TRUNC, func(f *os.File) error {
		_, err := f.WriteString(value + "\n")
		return err
	})
}

func (s sysctls) open(at string, flag int, do func(*os.File) error) error {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return fmt.Errorf("open sysctls: %w", err)
	}
	defer root.Close()
	f, err := root.OpenFile(at, flag, 0)
	if err != nil {
		return err
	}
	err = do(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
