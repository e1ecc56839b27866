package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/writ-os/writ/image/deb"
	"github.com/writ-os/writ/image/tree"
)

// Closure adds the libraries that the programs of t need. For each that no
// package has the error names the package that probably has it.
func (s *Source) Closure(t *tree.Tree) (*tree.Closure, error) {
	c, err := t.Closure(s.Tree)
	return c, s.explain(err)
}

func (s *Source) explain(err error) error {
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		var all []error
		for _, one := range many.Unwrap() {
			all = append(all, s.explain(one))
		}
		return errors.Join(all...)
	}
	var m *tree.Missing
	if !errors.As(err, &m) {
		return err
	}
	may := s.mayHave(m)
	if len(may) == 0 {
		return fmt.Errorf("%w; add its package to packages.list and run `make image-update`", err)
	}
	return fmt.Errorf("%w; %s depends on %s: add it to packages.list and run `make image-update`", err, m.Origin, strings.Join(may, ", "))
}

// mayHave returns the packages that may have a missing library: of those that
// the package of the program depends on and that are not locked, the one that
// is named after the library, or else all.
func (s *Source) mayHave(m *tree.Missing) []string {
	i := slices.IndexFunc(s.Packages, func(c deb.Control) bool { return c.Name == m.Origin })
	if i < 0 {
		return nil
	}
	var all []string
	for _, d := range s.Packages[i].Depends {
		if _, locked := s.Lock.Find(d); locked || slices.Contains(all, d) {
			continue
		}
		if slices.Contains(packageNames(m.Library), d) {
			return []string{d}
		}
		all = append(all, d)
	}
	return all
}

// packageNames are how Debian calls the package of a library (policy 8.1):
// libz.so.1 is in libz1, libpcre2-8.so.0 in libpcre2-8-0, and "t64" was added
// to some in the change to 64-bit times.
func packageNames(soname string) []string {
	name, version, ok := strings.Cut(strings.ReplaceAll(strings.ToLower(soname), "_", "-"), ".so.")
	if !ok {
		return nil
	}
	if last := name[len(name)-1]; last >= '0' && last <= '9' {
		name += "-"
	}
	return []string{name + version, name + version + "t64"}
}
