package deb

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
)

// Control is what a package says of itself: what a bill of materials needs.
type Control struct {
	Name, Version, Arch string
	// Source and SourceVersion name what it was built from, as Debian's
	// security tracker does.
	Source, SourceVersion string
	Maintainer, Homepage  string
	// Depends are the names of packages it needs, alternatives included, in
	// the order of Pre-Depends and Depends, without versions.
	Depends []string
}

// Licence is the path of the file that holds its copyright and licences, as
// Debian policy 12.5 places it. It may lead through a symbolic link.
func (c Control) Licence() string { return "usr/share/doc/" + c.Name + "/copyright" }

// Names and versions go into paths and into lines that are split at spaces. The
// rules are made when an image is: every other process does without.
var (
	nameRule    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]{1,127}$`) })
	versionRule = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9][A-Za-z0-9.+:~-]{0,127}$`) })
	archRule    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9-]{2,32}$`) })
)

// ParseControl reads the fields of one package, of its control file or of a
// Packages index.
func ParseControl(p Paragraph) (Control, error) {
	c := Control{
		Name: p["Package"], Version: p["Version"], Arch: p["Architecture"],
		Maintainer: p["Maintainer"], Homepage: p["Homepage"],
	}
	switch {
	case !nameRule().MatchString(c.Name):
		return Control{}, fmt.Errorf("%.60q is no name of a package", c.Name)
	case !versionRule().MatchString(c.Version):
		return Control{}, fmt.Errorf("%s: %.60q is no version", c.Name, c.Version)
	case !archRule().MatchString(c.Arch):
		return Control{}, fmt.Errorf("%s: %.60q is no architecture", c.Name, c.Arch)
	}
	// "Source: name (version)"; both default to those of the package.
	c.Source, c.SourceVersion = c.Name, c.Version
	if s := p["Source"]; s != "" {
		name, version, _ := strings.Cut(s, " ")
		c.Source = name
		if v := strings.Trim(version, " ()"); v != "" {
			c.SourceVersion = v
		}
	}
	c.Depends = append(relations(p["Pre-Depends"]), relations(p["Depends"])...)
	return c, nil
}

// relations reads the names out of "a (>= 1), b | c:any".
func relations(field string) []string {
	var names []string
	for one := range strings.FieldsFuncSeq(field, func(r rune) bool { return r == ',' || r == '|' }) {
		name, _, _ := strings.Cut(strings.TrimSpace(one), " ")
		name, _, _ = strings.Cut(name, ":")
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// ReadControl reads the first paragraph of a control file.
func ReadControl(r io.Reader) (Control, error) {
	for p, err := range Paragraphs(r) {
		if err != nil {
			return Control{}, err
		}
		return ParseControl(p)
	}
	return Control{}, errors.New("the control file is empty")
}
