package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/writ-os/writ/image/tree"
)

// Options say how a file system is made.
type Options struct {
	UUID  string    // of the file system, in lower case
	Epoch time.Time // the time of every file
}

var uuidRule = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// BlockSize is that of the file system, and of dm-verity above it. It is
// said to mkfs.erofs, whose own default is the page size of the host.
const BlockSize = 4096

func (o Options) args() ([]string, error) {
	switch {
	case !uuidRule.MatchString(o.UUID):
		return nil, fmt.Errorf("%q is no UUID in lower case", o.UUID)
	case o.Epoch.Unix() < 0 || o.Epoch.IsZero():
		return nil, errors.New("there is no epoch")
	}
	return []string{
		"--quiet", "--all-root",
		"-b" + strconv.Itoa(BlockSize),
		"-x-1", // no extended attributes
		"-U" + o.UUID,
		"-T" + strconv.FormatInt(o.Epoch.Unix(), 10), "--all-time",
		// What is made must not depend on how many processors there are.
		"--workers=1",
	}, nil
}

// EROFS writes t as an erofs image, which is not compressed, to the file out, whole or not at all. Equal
// trees and options make equal images, bit by bit. All files belong to root: a
// builder that is not root could not give them to anybody else.
//
// What is written is read back and compared: mkfs.erofs 1.8.6, given a tar
// stream, puts zeros into small files when it packs fragments, and nothing
// notices. It gets a directory, which works.
func (t *Tools) EROFS(ctx context.Context, files *tree.Tree, out string, o Options) error {
	if err := t.erofs(ctx, files, out, o); err != nil {
		return fmt.Errorf("make erofs: %w", err)
	}
	return nil
}

func (t *Tools) erofs(ctx context.Context, files *tree.Tree, out string, o Options) error {
	args, err := o.args()
	if err != nil {
		return err
	}
	for at, e := range files.All() {
		if e.UID != 0 || e.GID != 0 {
			return fmt.Errorf("%s belongs to %d:%d, and all files of an image belong to root", at, e.UID, e.GID)
		}
	}
	// The image is written in a directory beside it, and so is what mkfs.erofs
	// keeps for itself meanwhile.
	tmp, err := os.MkdirTemp(filepath.Dir(out), ".erofs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	from, back, image := filepath.Join(tmp, "tree"), filepath.Join(tmp, "back"), filepath.Join(tmp, "image")
	if err := errors.Join(os.Mkdir(from, 0o755), os.Mkdir(back, 0o755)); err != nil {
		return err
	}
	if err := files.ExtractModes(from); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c := t.command(ctx, mkfsErofs, append(args, image, from)...)
	c.Env = append(c.Env, "TMPDIR="+tmp, "SOURCE_DATE_EPOCH="+strconv.FormatInt(o.Epoch.Unix(), 10))
	if err := run(c, mkfsErofs); err != nil {
		return err
	}
	if err := run(t.command(ctx, fsckErofs, "--extract="+back, "--overwrite", "--no-preserve", image), fsckErofs); err != nil {
		return err
	}
	if err := files.Compare(back); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if err := syncFile(image); err != nil {
		return err
	}
	return os.Rename(image, out)
}

func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
