package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/image/lock/locktest"
	"github.com/writ-os/writ/image/source"
	"github.com/writ-os/writ/image/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// packages are those that the tools need, out of the lock of the image.
var packages = []string{
	"erofs-utils", "kmod", "libc6", "libdeflate0", "liblz4-1", "liblzma5", "libpcre2-8-0", "libselinux1", "libssl3t64", "libuuid1", "libxxhash0", "libzstd1", "zlib1g",
}

// locked loads them from the cache of this machine, once for all tests.
func locked(t *testing.T) *source.Source {
	t.Helper()
	l, dir := locktest.Cached(t, packages...)
	loaded.once.Do(func() { loaded.src, loaded.err = source.Load(context.Background(), dir, l) })
	if loaded.err != nil {
		t.Fatal(loaded.err)
	}
	return loaded.src
}

var loaded struct {
	once sync.Once
	src  *source.Source
	err  error
}

var options = Options{UUID: "0f4a1b4e-2d51-4d2c-9a55-3d2a0c6c2a11", Epoch: time.Unix(1750000000, 0)}

// sample is a tree with all that a tree can have. Its files begin in memory
// and on disk, added in an order of chance.
func sample(t *testing.T) *tree.Tree {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 300_000)
	for i := range noise {
		noise[i] = byte(r.IntN(64))
	}
	name := filepath.Join(t.TempDir(), "host")
	if err := os.WriteFile(name, []byte(strings.Repeat("from the host ", 50_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	host, err := tree.HostFile(name)
	if err != nil {
		t.Fatal(err)
	}
	tr := tree.Merged()
	add := []func() error{
		func() error { return tr.File("usr/lib/noise", 0o644, noise) },
		func() error { return tr.File("etc/empty", 0o600, nil) },
		func() error { return tr.File("etc/small", 0o640, []byte("small\n")) },
		func() error { return tr.File("etc/same", 0o640, []byte("small\n")) },
		func() error { return tr.Dir("tmp", fs.ModeSticky|0o777) },
		func() error { return tr.Symlink("etc/mtab", "/proc/self/mounts") },
		func() error { return tr.File(`usr/lib/a\x2db.mount`, 0o644, []byte("x")) },
		func() error {
			return tr.File(strings.Repeat("deep/", 40)+strings.Repeat("n", 150), 0o644, []byte("deep"))
		},
		func() error {
			return tr.Add("usr/bin/su", tree.Entry{Mode: fs.ModeSetuid | 0o755, Data: host, Origin: "p"})
		},
	}
	rand.Shuffle(len(add), func(i, j int) { add[i], add[j] = add[j], add[i] })
	for _, f := range add {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

// Two builds from nothing, in different directories, are the same bytes.
func TestEROFSIsReproducible(t *testing.T) {
	src := locked(t)
	var sums []string
	for range 2 {
		tools, err := Open(src, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "image")
		if err := tools.EROFS(t.Context(), sample(t), out, options); err != nil {
			t.Fatal(err)
		}
		sums = append(sums, digest(t, out))
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds differ: %s, %s", sums[0], sums[1])
	}
}

func digest(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) == 0 || len(b)%BlockSize != 0 {
		t.Errorf("%d bytes are no whole blocks", len(b))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// What fsck.erofs takes out of the image is what was put in.
func TestEROFSHoldsTheTree(t *testing.T) {
	src := locked(t)
	cache := t.TempDir()
	tools, err := open(src, cache, mkfsErofs, "usr/bin/fsck.erofs")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out, got := filepath.Join(dir, "image"), filepath.Join(dir, "tree")
	want := sample(t)
	if err := tools.EROFS(t.Context(), want, out, options); err != nil {
		t.Fatal(err)
	}
	args := []string{"--extract=" + got, out}
	if os.Geteuid() == 0 {
		args = append([]string{"--preserve"}, args...)
	}
	if err := run(tools.command(t.Context(), "usr/bin/fsck.erofs", args...), "fsck.erofs"); err != nil {
		t.Fatal(err)
	}
	n := 0
	err = filepath.WalkDir(got, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == got {
			return err
		}
		n++
		at, _ := filepath.Rel(got, name)
		compare(t, want, at, name)
		return nil
	})
	if err != nil || n != want.Len() {
		t.Errorf("the image has %d files, the tree %d: %v", n, want.Len(), err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("beside the image there is %v, %v", left, err)
	}
}

func compare(t *testing.T, want *tree.Tree, at, name string) {
	t.Helper()
	e, ok := want.Get(at)
	if !ok {
		t.Errorf("%s is not in the tree", at)
		return
	}
	s, err := os.Lstat(name)
	if err != nil {
		t.Error(err)
		return
	}
	if e.Mode.Type() == fs.ModeSymlink {
		if to, err := os.Readlink(name); err != nil || to != e.Link {
			t.Errorf("%s leads to %q, %v; want %q", at, to, err, e.Link)
		}
		return
	}
	if os.Geteuid() == 0 {
		st := s.Sys().(*syscall.Stat_t)
		if s.Mode() != e.Mode || int(st.Uid) != e.UID || int(st.Gid) != e.GID || s.ModTime().Unix() != options.Epoch.Unix() {
			t.Errorf("%s: %v %d:%d %v, want %v %d:%d", at, s.Mode(), st.Uid, st.Gid, s.ModTime(), e.Mode, e.UID, e.GID)
		}
	}
	if e.Mode.IsRegular() {
		a, err := os.ReadFile(name)
		b, err2 := want.ReadFile(at)
		if err != nil || err2 != nil || string(a) != string(b) {
			t.Errorf("%s has %d bytes, want %d: %v, %v", at, len(a), len(b), err, err2)
		}
	}
}

func TestEROFSRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"no uuid":  {Options{Epoch: options.Epoch}, "no UUID"},
		"no epoch": {Options{UUID: options.UUID}, "no epoch"},
	} {
		if err := (&Tools{}).EROFS(t.Context(), tree.New(), "x", c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Somebody else's file would become root's.
func TestEROFSRefusesOwners(t *testing.T) {
	tr := tree.Merged()
	if err := tr.Add("etc/theirs", tree.Entry{Mode: 0o600, UID: 3, Data: tree.Bytes(nil)}); err != nil {
		t.Fatal(err)
	}
	if err := (&Tools{}).EROFS(t.Context(), tr, "x", options); err == nil || !strings.Contains(err.Error(), "etc/theirs belongs to 3:0") {
		t.Errorf("error %v", err)
	}
}

// Nothing half made is left when a build fails.
func TestEROFSFails(t *testing.T) {
	src := locked(t)
	tools, err := Open(src, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	unreadable := sample(t)
	errBroken := errors.New("the disk is broken")
	if err := unreadable.Add("usr/zzz", tree.Entry{Mode: 0o644, Data: tree.Data{Size: 9, Open: func() (io.ReadCloser, error) { return nil, errBroken }}}); err != nil {
		t.Fatal(err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		tools *Tools
		tree  *tree.Tree
		want  string
	}{
		"a file that cannot be read":  {t.Context(), tools, unreadable, errBroken.Error()},
		"a program that is not there": {t.Context(), &Tools{dir: t.TempDir()}, sample(t), "mkfs.erofs"},
		"stopped":                     {stopped, tools, sample(t), "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			err := c.tools.EROFS(c.ctx, c.tree, filepath.Join(dir, "image"), options)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestOpenTwice(t *testing.T) {
	src := locked(t)
	dir := t.TempDir()
	for range 2 {
		if _, err := Open(src, dir); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(filepath.Join(dir, "tools"))
	if err != nil || len(left) != 1 {
		t.Fatalf("in the cache: %v, %v", left, err)
	}
	// A library that lost its end is put right.
	lib := filepath.Join(dir, "tools", left[0].Name(), libraries, "libc.so.6")
	if err := os.Truncate(lib, 100); err != nil {
		t.Fatal(err)
	}
	tools, err := Open(src, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(tools.command(t.Context(), mkfsErofs, "-V"), mkfsErofs); err != nil {
		t.Error(err)
	}
	if _, err := Open(&source.Source{Tree: tree.Merged()}, dir); err == nil || !strings.Contains(err.Error(), "no package has usr/bin/mkfs.erofs") {
		t.Errorf("without the program: %v", err)
	}
}

func TestDepmodRefuses(t *testing.T) {
	if err := (&Tools{}).Depmod(t.Context(), tree.New(), "6.12"); err == nil || !strings.Contains(err.Error(), "there are none of the kernel 6.12") {
		t.Errorf("error %v", err)
	}
}

// Builds at the same time share the cache.
func TestOpenAtOnce(t *testing.T) {
	src := locked(t)
	dir := t.TempDir()
	for range 2 {
		var g errgroup.Group
		for range 4 {
			g.Go(func() error {
				tools, err := Open(src, dir)
				if err != nil {
					return err
				}
				return run(tools.command(t.Context(), mkfsErofs, "-V"), mkfsErofs)
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		left, err := os.ReadDir(filepath.Join(dir, "tools"))
		if err != nil || len(left) != 1 {
			t.Fatalf("in the cache: %v, %v", left, err)
		}
	}
}
