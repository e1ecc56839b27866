package lock

import version "github.com/knqyf263/go-deb-version"

func validVersion(v string) bool { return len(v) <= 128 && version.Valid(v) }

// newer says whether a comes after b in the order of deb-version(7). Both are
// valid.
func newer(a, b string) bool {
	va, errA := version.NewVersion(a)
	vb, errB := version.NewVersion(b)
	return errA == nil && errB == nil && va.GreaterThan(vb)
}
