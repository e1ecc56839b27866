package lock

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Lock is what packages.lock says.
type Lock struct {
	// Suites are where the packages were looked for, sorted by name.
	Suites []Suite
	// Packages are sorted by name; each name is there once.
	Packages []Package
}

// Suite is one Debian suite at one time.
type Suite struct {
	Name    string // "trixie-security"
	Archive string // "debian-security", the key of Mirrors
	// Date is when the archive made the index that was read, in UTC.
	Date time.Time
}

// Package is one file of an archive.
type Package struct {
	Name, Version, Arch string
	// Path begins with the archive: "debian/pool/main/k/kmod/kmod_34.2-2_amd64.deb".
	Path   string
	Size   int64
	SHA256 string // lower-case hexadecimal
}

func (p Package) String() string { return p.Name + " " + p.Version }

// Find returns the package of that name.
func (l *Lock) Find(name string) (Package, bool) {
	i, ok := slices.BinarySearchFunc(l.Packages, name, func(p Package, n string) int { return cmp.Compare(p.Name, n) })
	if !ok {
		return Package{}, false
	}
	return l.Packages[i], true
}

const header = `# The Debian packages of the node image: name version arch path size sha256.
# Written by "make image-update" from packages.list. Commit both.
`

// Write writes l in its one form: equal locks are equal bytes.
func (l *Lock) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, header)
	for _, s := range l.Suites {
		fmt.Fprintf(b, "suite %s %s %s\n", s.Name, s.Archive, s.Date.UTC().Format(time.RFC3339))
	}
	for _, p := range l.Packages {
		fmt.Fprintf(b, "%s %s %s %s %d %s\n", p.Name, p.Version, p.Arch, p.Path, p.Size, p.SHA256)
	}
	return b.Flush()
}

const (
	maxLines = 10_000
	maxSize  = 1 << 30 // of one package
)

var (
	wordRule   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]{0,127}$`) })
	digestRule = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })
	// pathRule is what Debian's pool uses, percent signs included.
	pathRule = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~%:-]*(/[A-Za-z0-9][A-Za-z0-9._+~%:-]*)+\.deb$`)
	})
)

// Parse reads a lock. name is the file in errors, which say file:line.
func Parse(name string, r io.Reader) (*Lock, error) {
	l := &Lock{}
	err := eachLine(name, r, func(line int, f []string) error {
		if f[0] == "suite" {
			return l.addSuite(f)
		}
		return l.addPackage(f)
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// eachLine calls do with the fields of each line that is not empty; "#" begins
// a comment.
func eachLine(name string, r io.Reader, do func(line int, fields []string) error) error {
	sc := bufio.NewScanner(r)
	line := 0
	for sc.Scan() {
		if line++; line > maxLines {
			return fmt.Errorf("%s:%d: there are more than %d lines", name, line, maxLines)
		}
		text, _, _ := strings.Cut(sc.Text(), "#")
		f := strings.Fields(text)
		if len(f) == 0 {
			continue
		}
		if err := do(line, f); err != nil {
			return fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", name, line+1, err)
	}
	return nil
}

func (l *Lock) addSuite(f []string) error {
	if len(f) != 4 || !wordRule().MatchString(f[1]) || !wordRule().MatchString(f[2]) {
		return fmt.Errorf("a suite is written as: suite NAME ARCHIVE DATE")
	}
	date, err := time.Parse(time.RFC3339, f[3])
	if err != nil {
		return fmt.Errorf("%q is no date like 2026-11-21T00:53:03Z", f[3])
	}
	if n := len(l.Suites); len(l.Packages) > 0 || n > 0 && l.Suites[n-1].Name >= f[1] {
		return fmt.Errorf("suites come first, sorted by name, each once; %s is out of order", f[1])
	}
	l.Suites = append(l.Suites, Suite{Name: f[1], Archive: f[2], Date: date.UTC()})
	return nil
}

func (l *Lock) addPackage(f []string) error {
	if len(f) != 6 {
		return fmt.Errorf("a package has 6 fields (name version arch path size sha256), here are %d", len(f))
	}
	size, err := strconv.ParseInt(f[4], 10, 64)
	p := Package{Name: f[0], Version: f[1], Arch: f[2], Path: f[3], Size: size, SHA256: f[5]}
	switch archive, _, _ := strings.Cut(p.Path, "/"); {
	case err != nil || size <= 0 || size > maxSize:
		return fmt.Errorf("%q is no size in bytes of at most %d", f[4], maxSize)
	case !wordRule().MatchString(p.Name):
		return fmt.Errorf("%q is no name of a package", p.Name)
	case !validVersion(p.Version):
		return fmt.Errorf("%q is no version", p.Version)
	case !wordRule().MatchString(p.Arch):
		return fmt.Errorf("%q is no architecture", p.Arch)
	case !digestRule().MatchString(p.SHA256):
		return fmt.Errorf("%q is no SHA-256 digest in lower-case hexadecimal", p.SHA256)
	case !pathRule().MatchString(p.Path) || path.Clean(p.Path) != p.Path:
		return fmt.Errorf("%q is no path of a .deb in an archive", p.Path)
	case !slices.ContainsFunc(l.Suites, func(s Suite) bool { return s.Archive == archive }):
		return fmt.Errorf("the path begins with %s, which is the archive of no suite above", archive)
	}
	if n := len(l.Packages); n > 0 && l.Packages[n-1].Name >= p.Name {
		return fmt.Errorf("packages are sorted by name, each once; %s comes after %s", p.Name, l.Packages[n-1].Name)
	}
	l.Packages = append(l.Packages, p)
	return nil
}
