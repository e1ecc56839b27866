// Package locktest gives tests the packages that image/packages.lock pins.
//
// It watches nothing, owns nothing and fetches nothing: where the cache does not
// have them, the test is skipped and says so.
package locktest

import (
	"os"
	"slices"
	"testing"

	"github.com/writ-os/writ/image/lock"
)

// Lock is image/packages.lock, for tests of a package right below image.
func Lock(t testing.TB) *lock.Lock {
	t.Helper()
	f, err := os.Open("../packages.lock")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := lock.Parse("packages.lock", f)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Cached is the lock, or the part of it that has these packages, and the cache
// that holds what it pins. A test that unpacks all of them takes minutes with the
// race detector, and is left to a run without it.
func Cached(t testing.TB, names ...string) (*lock.Lock, string) {
	t.Helper()
	if raceEnabled && len(names) == 0 {
		t.Skip("unpacks 60 MB of packages, which takes minutes with the race detector: make test runs it without")
	}
	l := Lock(t)
	if len(names) > 0 {
		l.Packages = slices.DeleteFunc(l.Packages, func(p lock.Package) bool { return !slices.Contains(names, p.Name) })
	}
	dir, err := lock.Dir()
	if err != nil {
		t.Fatal(err)
	}
	if !lock.Cached(dir, l) {
		t.Skipf("%s does not have the packages of image/packages.lock: build an image once, or set WRIT_IMAGE_CACHE", dir)
	}
	return l, dir
}
