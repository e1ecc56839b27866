package build

import (
	"maps"
	"slices"
	"strings"
)

// licenses are those that no list of SPDX has, by identifier.
type licenses map[string]string

// known are the names of Debian's copyright files, in lower case, that SPDX
// has another name for.
var known = map[string]string{
	"gpl-1+": "GPL-1.0-or-later", "gpl-2": "GPL-2.0-only", "gpl-2+": "GPL-2.0-or-later", "gpl-3": "GPL-3.0-only", "gpl-3+": "GPL-3.0-or-later",
	"lgpl-2": "LGPL-2.0-only", "lgpl-2+": "LGPL-2.0-or-later", "lgpl-2.1": "LGPL-2.1-only", "lgpl-2.1+": "LGPL-2.1-or-later",
	"lgpl-3": "LGPL-3.0-only", "lgpl-3+": "LGPL-3.0-or-later", "apache-2.0": "Apache-2.0", "mit": "MIT", "expat": "MIT", "isc": "ISC",
	"zlib": "Zlib", "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause", "bsd-4-clause": "BSD-4-Clause", "mpl-2.0": "MPL-2.0",
	"cc0-1.0": "CC0-1.0", "cc0": "CC0-1.0", "unlicense": "Unlicense", "bsl-1.0": "BSL-1.0", "0bsd": "0BSD", "artistic-2.0": "Artistic-2.0",
	"gfdl-1.3+": "GFDL-1.3-or-later", "openssl": "OpenSSL",
}

// licenseNames are the licences that a machine-readable copyright file names
// (DEP-5); none of another file. Alternatives are taken apart: all are said.
func licenseNames(text string) []string {
	if !strings.HasPrefix(strings.TrimSpace(text), "Format:") {
		return nil
	}
	names := map[string]bool{}
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(line, "License:")
		if !ok {
			continue
		}
		value = strings.ToLower(strings.NewReplacer(",", " ", "(", " ", ")", " ").Replace(value))
		fields := strings.Fields(value)
		for i := 0; i < len(fields); i++ {
			switch f := fields[i]; f {
			case "and", "or", "and/or":
			case "with": // an exception, to the name before it
				i = len(fields)
			default:
				names[f] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// expression joins licences, and notes those that SPDX does not know.
func (l licenses) expression(names []string) string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		id, ok := known[n]
		if !ok {
			id = "LicenseRef-debian-" + spdxID(n)
			l[id] = n
		}
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " AND ")
}

func (l licenses) list() []billLicense {
	out := make([]billLicense, 0, len(l))
	for _, id := range slices.Sorted(maps.Keys(l)) {
		out = append(out, billLicense{id, l[id], "The text is in the copyright files of the packages that declare it."})
	}
	return out
}
