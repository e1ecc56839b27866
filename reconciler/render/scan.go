package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/writ-os/writ/reconciler/secret"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Limits of what is rendered. They are far above what people write and far
// below what hurts.
const (
	maxFileSize = 10 << 20 // bytes of one file
	maxDepth    = 64       // levels of nesting in one manifest
	maxAliased  = 50_000   // nodes that the aliases of one file may expand to
	maxTokens   = 1 << 20  // separators in one YAML file, a bound for its nodes
	maxFindings = 100      // of one file
	maxUnitSize = 32 << 20 // bytes that a kustomization or a chart may read
	maxUnitFile = 5_000    // files that it may read
	maxOutput   = 64 << 20 // bytes that it may make
)

// ignoreFile lists paths that are no manifests, one pattern a line.
const ignoreFile = ".writignore"

// Scan lists the units of a tree in the order of their paths, and what is
// wrong with the tree itself. Of YAML and JSON files it reads those that
// kustomizations name, and, for the charts that they may ask for, each once in
// the life of a Memory. The error is that of a tree that cannot be read.
func Scan(t Tree, options ...Options) ([]Unit, []v1alpha1.Finding, error) {
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	s, err := Read(t, o)
	if err != nil {
		return nil, nil, err
	}
	units := make([]Unit, 0, s.units.Len())
	for u := range s.units.All() {
		units = append(units, *s.bound(u))
	}
	return units, s.findings, nil
}

// scanner finds the units of one tree.
type scanner struct {
	opts     *Options
	tree     Tree
	index    *index
	ignored  ignores
	bad      map[string]*FileError
	findings []v1alpha1.Finding
	charts   []string                  // folders with a Chart.yaml
	searches bool                      // there may be charts: releases are looked for
	dirs     map[string]*kustomization // by folder; nil where there is none
	releases map[string][]release      // by blob
	owned    map[string]bool           // folders that belong to kustomizations
}

func (s *scanner) scan(files []File) (units []*Unit, err error) {
	for _, f := range files {
		if path.Base(f.Path) == chartFile && !hidden(f.Path) {
			s.charts = append(s.charts, path.Dir(f.Path))
		}
	}
	// Charts beside the followed folder are seen only when one asks for them.
	root, rooted := s.tree.(Rooted)
	s.searches = len(s.charts) > 0 || s.index.outside != nil && !(rooted && path.Clean(root.Root()) == ".")
	units, taken, err := s.kustomizations(files)
	if err != nil {
		return nil, err
	}
	cues := map[string][]File{}
	for i := range files {
		f := files[i]
		if hidden(f.Path) || s.ignored.match(f.Path) || s.inChart(f.Path) {
			continue
		}
		if f.Mode.Type() != 0 {
			s.findings = appendSpecial(s.findings, f)
			continue
		}
		switch ext := path.Ext(f.Path); {
		case ext == ".cue":
			if !inModuleFolder(f.Path) && !s.rule(f.Path) && !strings.HasSuffix(f.Path, "_tool.cue") && !strings.HasSuffix(f.Path, "_test.cue") {
				dir := path.Dir(f.Path)
				cues[dir] = append(cues[dir], f)
			}
		case ext == ".age" && !isManifestFile(f.Path) && !taken(f.Path):
			s.findings = append(s.findings, nameless(f.Path))
		case !isManifestFile(f.Path) || taken(f.Path):
		default:
			u := fileUnit(&f)
			if err := s.addReleases(u, f); err != nil {
				return nil, err
			}
			units = append(units, u)
		}
	}
	packages, more, err := cueUnits(s, files, cues)
	if err != nil {
		return nil, err
	}
	s.findings = append(s.findings, more...)
	return append(units, packages...), nil
}

// nameless refuses a file that is encrypted as a whole and does not say by its
// name what it holds: who left it out would take what it declares for removed.
func nameless(file string) v1alpha1.Finding {
	return v1alpha1.Finding{File: file, Line: 1, Column: 1, Rule: "NamelessFile",
		Message: "the file is encrypted as a whole, and its name does not say whether it holds manifests",
		Hint:    "name it " + path.Base(strings.TrimSuffix(file, ".age")) + ".yaml.age, or list the path in " + ignoreFile}
}

// fileUnit is a file that is a unit by itself.
func fileUnit(f *File) *Unit {
	u := &Unit{Path: f.Path, Hash: f.Blob, file: f, opts: &unbound}
	if path.Ext(secret.PlainName(f.Path)) == ".json" {
		u.format = formatJSON
	}
	return u
}

// inChart says whether a file belongs to a chart: it is no manifest by itself.
func (s *scanner) inChart(p string) bool {
	return slices.ContainsFunc(s.charts, func(dir string) bool { return below(p, dir) })
}

// list reads the tree: its files, and those that it cannot accept.
func list(t Tree) (files []File, bad []*FileError, err error) {
	for f, err := range t.Walk() {
		var b *FileError
		switch {
		case errors.As(err, &b):
			bad = append(bad, b)
		case err != nil:
			return nil, nil, fmt.Errorf("walk tree: %w", err)
		default:
			files = append(files, f)
		}
	}
	return files, bad, nil
}

// matters says whether a file that cannot be accepted refuses the commit. One
// that is too large or kept elsewhere does if it would have been a manifest; a
// link or submodule does whatever its name, for what is behind it is unknown;
// and the end of the walk always does: what was not seen must not be pruned.
func matters(b *FileError, ignored ignores) bool {
	switch {
	case b.Partial:
		return true
	case hidden(b.Path) || ignored.match(b.Path):
		return false
	case b.Rule == "TooLarge" || b.Rule == "LFSPointer":
		return wanted(b.Path)
	}
	return true
}

// hidden says whether a path is none of ours: a name in it begins with "." or
// "_", or it is a policy, which is about manifests and no manifest itself.
func hidden(p string) bool {
	if p == "policy" || strings.HasPrefix(p, "policy/") {
		return true
	}
	for name := range strings.SplitSeq(p, "/") {
		if name != "" && (name[0] == '.' || name[0] == '_') {
			return true
		}
	}
	return false
}

func isManifestFile(p string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(secret.PlainName(p)))
}

func wanted(p string) bool {
	return !hidden(p) && (isManifestFile(p) || path.Ext(p) == ".cue")
}

func inModuleFolder(p string) bool {
	return strings.HasPrefix(p, "cue.mod/") || strings.Contains(p, "/cue.mod/")
}

// appendSpecial reports links and submodules that would have been manifests.
func appendSpecial(findings []v1alpha1.Finding, f File) []v1alpha1.Finding {
	switch {
	case f.Mode&fs.ModeSymlink != 0 && wanted(f.Path):
		return append(findings, v1alpha1.Finding{File: f.Path, Rule: "Symlink",
			Message: "is a symbolic link, and links are not followed", Hint: "commit the file itself"})
	case f.Mode&fs.ModeSymlink == 0:
		return append(findings, v1alpha1.Finding{File: f.Path, Rule: "Submodule",
			Message: "is not a regular file", Hint: "commit the files themselves, or list the path in " + ignoreFile})
	}
	return findings
}
