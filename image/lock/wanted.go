package lock

import (
	"fmt"
	"io"
)

// Wanted is one line of packages.list.
type Wanted struct {
	// Name is the package itself. With a Prefix it is a meta-package, which is
	// not pinned: those it depends on whose names begin with Prefix are.
	// Debian names the kernel so, whose package carries its version.
	Name, Prefix string
	At           string // file:line
}

// ParseWanted reads packages.list: a name on each line, or
// "META -> PREFIX"; "#" begins a comment. name is the file in errors.
func ParseWanted(name string, r io.Reader) ([]Wanted, error) {
	var all []Wanted
	seen := map[string]string{}
	err := eachLine(name, r, func(line int, f []string) error {
		w := Wanted{Name: f[0], At: fmt.Sprintf("%s:%d", name, line)}
		if len(f) == 3 && f[1] == "->" && wordRule().MatchString(f[2]) {
			w.Prefix = f[2]
		} else if len(f) != 1 {
			return fmt.Errorf("a line is NAME or META -> PREFIX")
		}
		if !wordRule().MatchString(w.Name) {
			return fmt.Errorf("%q is no name of a package", w.Name)
		}
		if first, twice := seen[w.Name]; twice {
			return fmt.Errorf("%s is wanted already at %s", w.Name, first)
		}
		seen[w.Name] = w.At
		all = append(all, w)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
