package update

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/controlplane/durable"
)

const (
	bundleSuffix = ".bundle" // whole, and true to its digest
	partSuffix   = ".part"   // what came so far

	// maxBundle is how long a bundle may be that declares no size, in bytes.
	maxBundle = 5 << 30
	// stall is how long a source may send nothing.
	stall = time.Minute
)

// distrustError is a bundle that is not what was declared.
type distrustError struct{ why string }

func (e *distrustError) Error() string { return e.why }

// fetcher keeps bundles in a directory, each under its digest.
type fetcher struct {
	dir  string
	http *http.Client
}

func (f fetcher) path(i Image, suffix string) string {
	return filepath.Join(f.dir, strings.TrimPrefix(i.Digest, "sha256:")+suffix)
}

// isDigest says whether s is sha256: and 64 hexadecimal digits in lower case. It
// becomes the name of a file.
func isDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	b, err := hex.DecodeString(digits)
	return ok && err == nil && len(b) == sha256.Size && hex.EncodeToString(b) == digits
}

// has says whether the bundle is there.
func (f fetcher) has(i Image) bool {
	if !isDigest(i.Digest) {
		return false
	}
	_, err := os.Stat(f.path(i, bundleSuffix))
	return err == nil
}

// any says whether anything was fetched.
func (f fetcher) any() bool {
	names, err := f.downloads()
	return err == nil && len(names) > 0
}

// clean removes all downloads but those of one image.
func (f fetcher) clean(keep Image) error {
	names, err := f.downloads()
	if err != nil {
		return err
	}
	for _, n := range names {
		if keep.Digest != "" && strings.HasPrefix(filepath.Base(n), strings.TrimPrefix(keep.Digest, "sha256:")+".") {
			continue
		}
		if err := os.Remove(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove download: %w", err)
		}
	}
	return nil
}

func (f fetcher) downloads() ([]string, error) {
	var all []string
	for _, suffix := range []string{bundleSuffix, partSuffix} {
		names, err := filepath.Glob(filepath.Join(f.dir, "*"+suffix))
		if err != nil {
			return nil, fmt.Errorf("list downloads: %w", err)
		}
		all = append(all, names...)
	}
	return all, nil
}

// fetch brings the bundle here, and goes on where the last attempt ended. An
// error that is a *distrustError is the bundle's; others may pass.
func (f fetcher) fetch(ctx context.Context, i Image, progress func(done, total int64)) error {
	if !isDigest(i.Digest) {
		return &distrustError{fmt.Sprintf("the digest %.80q of %s is not sha256: and 64 hexadecimal digits", i.Digest, i.Name)}
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fmt.Errorf("make directory of downloads: %w", err)
	}
	if err := f.clean(i); err != nil {
		return err
	}
	if err := f.room(i); err != nil {
		return err
	}
	resumed, err := f.download(ctx, i, progress)
	if errors.Is(err, syscall.ENOSPC) {
		// What else is on this disk needs the room more than half a bundle does.
		if rerr := os.Remove(f.path(i, partSuffix)); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	if err != nil {
		return plain(err, i, f.dir)
	}
	err = f.check(i)
	var distrust *distrustError
	if errors.As(err, &distrust) && resumed {
		// The parts may be of two files: the source changed in between. Only one
		// that was sent as a whole is judged.
		return fmt.Errorf("the parts of %s do not belong together; it is fetched anew", i.Version)
	}
	return err
}

// room refuses to begin what would fill the disk. A bundle that declares no size
// is fetched until it does.
func (f fetcher) room(i Image) error {
	var st unix.Statfs_t
	if i.Size == 0 || unix.Statfs(f.dir, &st) != nil {
		return nil
	}
	var have int64
	if info, err := os.Stat(f.path(i, partSuffix)); err == nil {
		have = info.Size()
	}
	need, free := i.Size-have, int64(st.Bavail)*st.Bsize //nolint:gosec // a disk has fewer than 2^63 bytes
	if need <= free {
		return nil
	}
	return fmt.Errorf("there is no room for the bundle of %s: it needs %d more bytes, and %d are free in %s: make room there, by removing what pods or images take", i.Version, need, free, f.dir)
}

// check hashes what was downloaded, and keeps it if it is the bundle.
func (f fetcher) check(i Image) error {
	part := f.path(i, partSuffix)
	in, err := os.Open(part)
	if err != nil {
		return fmt.Errorf("read download: %w", err)
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return fmt.Errorf("read download: %w", err)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != i.Digest {
		if err := os.Remove(part); err != nil {
			return fmt.Errorf("remove download: %w", err)
		}
		return &distrustError{fmt.Sprintf("the bundle of %s from %s is refused: its digest is %s, and %s is declared", i.Version, host(i), got, i.Digest)}
	}
	if err := in.Sync(); err != nil {
		return fmt.Errorf("keep download: %w", err)
	}
	if err := durable.Rename(part, f.path(i, bundleSuffix)); err != nil {
		return fmt.Errorf("keep download: %w", err)
	}
	return nil
}

// plain puts an error of a download into a sentence.
func plain(err error, i Image, dir string) error {
	var distrust *distrustError
	var of *url.Error
	switch {
	case errors.As(err, &distrust), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("there is no room for the bundle of %s: the disk of %s is full: make room there, by removing what pods or images take", i.Version, dir)
	case errors.As(err, &of):
		err = of.Err // which does not repeat the URL
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the connection broke")
	}
	return fmt.Errorf("fetch %s from %s: %w", i.Version, host(i), err)
}

// host is where the image comes from, without what a URL may have of secrets.
func host(i Image) string {
	u, err := url.Parse(i.URL)
	if err != nil || u.Host == "" {
		return "its source"
	}
	return u.Host
}
