package boot

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	prefix = "writ_"
	suffix = ".efi"
	staged = ".staged"
	extra  = ".efi.extra.d/writ.addon.efi"

	// Tries is how often the loader starts a version that was never found good.
	Tries = 3
	// maxSeq keeps what is added to a number far from its limit.
	maxSeq = 1 << 62
	// TmpSuffix is that of a file that is being written.
	TmpSuffix = ".tmp"
)

// Entry is a UKI that the loader sees.
type Entry struct {
	Name string
	Seq  uint64
	// Left and Done are the counters of an entry on trial; Good has none.
	Left, Done int
	Good       bool
	// RootHash is that on its command line, "" of a file that is no whole UKI.
	RootHash string
	// Arguments are the kernel arguments that it is given besides.
	Arguments string
}

// Spent says that the loader has tried the entry as often as it may.
func (e Entry) Spent() bool { return !e.Good && e.Left == 0 }

func (e Entry) String() string {
	switch {
	case e.Good:
		return fmt.Sprintf("%s (good, %.8s)", e.Name, e.RootHash)
	case e.Spent():
		return fmt.Sprintf("%s (failed, %.8s)", e.Name, e.RootHash)
	}
	return fmt.Sprintf("%s (on trial, %.8s)", e.Name, e.RootHash)
}

// GoodName is the name of an entry that was found good.
func GoodName(seq uint64) string { return fmt.Sprintf("%s%d%s", prefix, seq, suffix) }

// TrialName is the name of an entry whose trial begins.
func TrialName(seq uint64) string { return fmt.Sprintf("%s%d+%d%s", prefix, seq, Tries, suffix) }

// StagedName is the name of a UKI that the loader does not see yet.
func StagedName(seq uint64) string { return fmt.Sprintf("%s%d%s", prefix, seq, staged) }

// TmpName is the name of a UKI that is being written.
func TmpName(seq uint64) string { return fmt.Sprintf("%s%d%s", prefix, seq, TmpSuffix) }

// ArgumentsName is the file of the kernel arguments that an entry is given besides.
func ArgumentsName(seq uint64) string { return fmt.Sprintf("%s%d%s", prefix, seq, extra) }

// CountedName is the name of an entry with its counters.
func CountedName(e Entry) string {
	return fmt.Sprintf("%s%d+%d-%d%s", prefix, e.Seq, e.Left, e.Done, suffix)
}
func isLoaderEntry(name string) bool {
	return strings.HasSuffix(name, suffix) && !strings.Contains(name, "/")
}

// ParseEntry reads the name of an entry. Names that others gave are none of
// ours.
func ParseEntry(name string) (Entry, bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok || !isLoaderEntry(name) {
		return Entry{}, false
	}
	rest = strings.TrimSuffix(rest, suffix)
	digits, count, counted := strings.Cut(rest, "+")
	e := Entry{Name: name, Good: !counted}
	if e.Seq, ok = number(digits); !ok {
		return Entry{}, false
	}
	if !counted {
		return e, true
	}
	left, done, both := strings.Cut(count, "-")
	n, ok := number(left)
	if !ok || n > 1<<20 {
		return Entry{}, false
	}
	e.Left = int(n)
	if both {
		if n, ok = number(done); !ok || n > 1<<20 {
			return Entry{}, false
		}
		e.Done = int(n)
	}
	return e, true
}

// SeqOf is the number in the name of any file of ours.
func SeqOf(name string) (uint64, bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		return 0, false
	}
	return number(rest[:end])
}

// number reads digits without a sign or leading zeros, which would be another
// name of the same number.
func number(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n < maxSeq && strconv.FormatUint(n, 10) == s
}

// Order sorts entries as systemd-boot does, the one it tries first at the
// beginning. Its rules (boot_entry_compare in src/boot/boot.c of systemd): entries
// with no tries left come last; then sort key, machine ID and version of os-release,
// downwards; then the file name downwards, compared as versions are, so that
// numbers count as numbers. Our UKIs share the sort key and have no version, so
// that the number in the name decides, whatever version is inside; counters are
// looked at last of all.
func Order(entries []Entry) {
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(truth(a.Spent(), b.Spent()), cmp.Compare(b.Seq, a.Seq), cmp.Compare(b.Left, a.Left))
	})
}

func truth(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Boot is what systemd-boot does with the entries: the one it starts, and the
// name that it gives it before (the same name for one without counters). Where
// every entry is spent it starts the newest of them all the same. ok is false
// where there is none.
func Boot(entries []Entry) (e Entry, renamed string, ok bool) {
	if len(entries) == 0 {
		return Entry{}, "", false
	}
	sorted := slices.Clone(entries)
	Order(sorted)
	e = sorted[0]
	if e.Good {
		return e, e.Name, true
	}
	after := e
	after.Left, after.Done = max(e.Left-1, 0), e.Done+1
	return e, CountedName(after), true
}
