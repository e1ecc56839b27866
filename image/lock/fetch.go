package lock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

const parallel = 4

// Fetching is what Fetch needs from outside.
type Fetching struct {
	Dir      string       // the cache
	Mirrors  Mirrors      // default Debian()
	HTTP     *http.Client // default one with timeouts
	Progress func(Progress)
}

// Progress is told after each package that was fetched, one at a time.
type Progress struct {
	Package    Package
	Done, All  int   // packages that had to be fetched
	Bytes, Sum int64 // of them
}

// cachePath is where the cache keeps p: by digest, so that a lock of another day
// finds what it shares with this one.
func cachePath(dir string, p Package) string { return filepath.Join(dir, "packages", p.SHA256+".deb") }

// Cached says whether all of l is in the cache, by name and size; Read checks
// the digest.
func Cached(dir string, l *Lock) bool { return len(missing(dir, l)) == 0 }

func missing(dir string, l *Lock) []Package {
	var all []Package
	for _, p := range l.Packages {
		if s, err := os.Stat(cachePath(dir, p)); err != nil || s.Size() != p.Size {
			all = append(all, p)
		}
	}
	return all
}

// Fetch downloads what the cache does not have, four files at a time. Any
// number of processes may do so at once.
func Fetch(ctx context.Context, f Fetching, l *Lock) error {
	if f.Mirrors == nil {
		f.Mirrors = Debian()
	}
	if f.HTTP == nil {
		f.HTTP = client()
	}
	todo := missing(f.Dir, l)
	if len(todo) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(f.Dir, "packages"), 0o755); err != nil {
		return fmt.Errorf("make cache: %w", err)
	}
	p := Progress{All: len(todo)}
	for _, one := range todo {
		p.Sum += one.Size
	}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, one := range todo {
		g.Go(func() error {
			if err := f.one(ctx, one); err != nil {
				return fmt.Errorf("fetch %s: %w", one, err)
			}
			mu.Lock()
			defer mu.Unlock()
			p.Package, p.Done, p.Bytes = one, p.Done+1, p.Bytes+one.Size
			if f.Progress != nil {
				f.Progress(p)
			}
			return nil
		})
	}
	return g.Wait()
}

func (f Fetching) one(ctx context.Context, p Package) error {
	archive, rest, _ := strings.Cut(p.Path, "/")
	base, ok := f.Mirrors[archive]
	if !ok {
		return fmt.Errorf("there is no mirror of the archive %s", archive)
	}
	url := strings.TrimRight(base, "/") + "/" + rest
	err := retry(ctx, func() error { return f.download(ctx, url, p) })
	if errors.Is(err, errGone) {
		return fmt.Errorf("%w: a newer version has taken its place; run `make image-update` and commit packages.lock", err)
	}
	return err
}

// download writes the file under another name and renames it when its digest
// is right and it is on disk.
func (f Fetching) download(ctx context.Context, url string, p Package) error {
	r, err := open(ctx, f.HTTP, url)
	if err != nil {
		return err
	}
	defer r.Close()
	to := cachePath(f.Dir, p)
	tmp, err := os.CreateTemp(filepath.Dir(to), p.SHA256+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(tmp, h), io.LimitReader(r, p.Size+1))
	if err != nil {
		return fmt.Errorf("get %s: %w", url, err)
	}
	if n != p.Size || hex.EncodeToString(h.Sum(nil)) != p.SHA256 {
		return fmt.Errorf("get %s: it is not what packages.lock names: %d bytes, digest %x", url, n, h.Sum(nil))
	}
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), to)
}

// Read returns a package out of the cache, whole, after its digest was
// checked: what is unpacked later is what was checked.
func Read(dir string, p Package) ([]byte, error) {
	at := cachePath(dir, p)
	f, err := os.Open(at)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, p.Size+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p, err)
	}
	if sum := sha256.Sum256(b); int64(len(b)) != p.Size || hex.EncodeToString(sum[:]) != p.SHA256 {
		return nil, fmt.Errorf("read %s: %s is damaged; remove it", p, at)
	}
	return b, nil
}

// Dir is the cache of this machine: $WRIT_IMAGE_CACHE, or writ/image in the
// user's cache directory.
func Dir() (string, error) {
	if dir := os.Getenv("WRIT_IMAGE_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache: %w; set WRIT_IMAGE_CACHE", err)
	}
	return filepath.Join(dir, "writ", "image"), nil
}
