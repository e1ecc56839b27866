package lock

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/writ-os/writ/image/deb"
)

// offer is one package of an index.
type offer struct {
	Package
	depends []string
}

// readOffer reads one paragraph of a Packages index.
func readOffer(archive string, p deb.Paragraph) (offer, error) {
	c, err := deb.ParseControl(p)
	if err != nil {
		return offer{}, err
	}
	var l = Lock{Suites: []Suite{{Archive: archive}}}
	// A lock refuses what could not be read back; the index is held to the same.
	err = l.addPackage([]string{c.Name, c.Version, c.Arch, archive + "/" + p["Filename"], p["Size"], p["SHA256"]})
	if err != nil {
		return offer{}, fmt.Errorf("%s: %w", c.Name, err)
	}
	return offer{Package: l.Packages[0], depends: c.Depends}, nil
}

// relevant says whether a package of that name can become part of the lock.
func relevant(wanted []Wanted, name string) bool {
	return slices.ContainsFunc(wanted, func(w Wanted) bool {
		return name == w.Name || w.Prefix != "" && strings.HasPrefix(name, w.Prefix)
	})
}

// pick decides which version of each wanted package is pinned: the newest that
// any suite offers. It says of all that are missing that they are.
func pick(wanted []Wanted, offers []offer) ([]Package, error) {
	newest := map[string]offer{}
	for _, o := range offers {
		if have, ok := newest[o.Name]; !ok || newer(o.Version, have.Version) {
			newest[o.Name] = o
		}
	}
	chosen := map[string]Package{}
	var missing []error
	for _, w := range wanted {
		o, ok := newest[w.Name]
		if !ok {
			missing = append(missing, fmt.Errorf("%s: no suite has a package %s", w.At, w.Name))
			continue
		}
		if w.Prefix == "" {
			chosen[o.Name] = o.Package
			continue
		}
		found := false
		for _, name := range o.depends {
			if d, ok := newest[name]; ok && strings.HasPrefix(name, w.Prefix) {
				chosen[name], found = d.Package, true
			}
		}
		if !found {
			missing = append(missing, fmt.Errorf("%s: %s depends on no package that begins with %s", w.At, o.Package, w.Prefix))
		}
	}
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	all := make([]Package, 0, len(chosen))
	for _, p := range chosen {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
