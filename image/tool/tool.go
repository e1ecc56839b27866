package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/writ-os/writ/image/source"
	"github.com/writ-os/writ/image/tree"
)

const (
	mkfsErofs = "usr/bin/mkfs.erofs"
	fsckErofs = "usr/bin/fsck.erofs"
	depmod    = "usr/sbin/depmod"
	loader    = "usr/lib64/ld-linux-x86-64.so.2"
	libraries = "usr/lib/x86_64-linux-gnu"
)

// Tools are extracted programs.
type Tools struct{ dir string }

// Open takes the programs and their libraries from the packages, and extracts
// them into the cache in dir unless they are there, whole and unchanged.
func Open(src *source.Source, dir string) (*Tools, error) {
	return open(src, dir, mkfsErofs, fsckErofs, depmod)
}

func open(src *source.Source, dir string, programs ...string) (*Tools, error) {
	if goruntime.GOOS != "linux" || goruntime.GOARCH != "amd64" {
		return nil, fmt.Errorf("the tools of the image run on linux/amd64, not on %s/%s", goruntime.GOOS, goruntime.GOARCH)
	}
	list, err := tree.ParseList("tools", strings.NewReader(strings.Join(append(programs, loader), "\n")))
	if err != nil {
		return nil, err
	}
	t := tree.New()
	if err := t.Copy(src.Tree, list); err != nil {
		return nil, fmt.Errorf("take tools: %w", err)
	}
	if _, err := src.Closure(t); err != nil {
		return nil, fmt.Errorf("take tools: %w", err)
	}
	digest, err := t.Digest()
	if err != nil {
		return nil, fmt.Errorf("take tools: %w", err)
	}
	at, err := filepath.Abs(filepath.Join(dir, "tools", digest))
	if err != nil {
		return nil, err
	}
	if err := extract(t, at); err != nil {
		return nil, fmt.Errorf("extract tools: %w", err)
	}
	return &Tools{dir: at}, nil
}

// extract makes the directory whole or not at all, and again where a machine
// that went down has left it damaged. Of several that do so at once one wins;
// the others find its work.
func extract(t *tree.Tree, at string) error {
	if t.Extracted(at) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(at), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := t.Extract(tmp); err != nil {
		return err
	}
	err = os.Rename(tmp, at)
	if !errors.Is(err, fs.ErrExist) || t.Extracted(at) {
		return ignoreExist(err)
	}
	// What is there is damaged. It is moved away before it is removed, for a
	// tool that runs out of it.
	old := tmp + ".old"
	defer os.RemoveAll(old)
	if err := os.Rename(at, old); err != nil {
		return err
	}
	return ignoreExist(os.Rename(tmp, at))
}

func ignoreExist(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// command prepares a program of the tools. Of the environment of the caller
// only the place for temporary files is handed on: locale, time zone and
// preloaded libraries must not change what is made.
func (t *Tools) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(t.dir, loader), append([]string{
		"--library-path", filepath.Join(t.dir, libraries),
		"--argv0", filepath.Base(program), // kmod is many programs by this name
		filepath.Join(t.dir, program),
	}, args...)...)
	c.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/nonexistent", "TMPDIR=" + os.TempDir()}
	return c
}

// run runs a command and puts what it said into the error.
func run(c *exec.Cmd, program string) error {
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, lastLines(said.String()))
	}
	return nil
}

// lastLines shortens what a program said to its end, where the reason is.
func lastLines(s string) string {
	const most = 2000
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = "... " + s[len(s)-most:]
	}
	return s
}
