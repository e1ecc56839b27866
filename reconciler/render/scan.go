package render

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"

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
)

// ignoreFile lists paths that are no manifests, one pattern a line.
const ignoreFile = ".writignore"

type format int

const (
	formatYAML format = iota
	formatJSON
	formatCUE
)

// Unit is what is rendered together: one YAML or JSON file, or the files of
// one CUE package.
type Unit struct {
	// Path is the file, or the folder of a CUE package.
	Path string
	// Hash changes when anything changes that the unit reads. For a file it is
	// the Git hash of its content.
	Hash string

	format format
	file   File
	cue    *cueModule
}

// CUE says whether the unit is a CUE package.
func (u *Unit) CUE() bool { return u.format == formatCUE }

// Scan lists the units of a tree in the order of their paths, and what is
// wrong with the tree itself. It opens no YAML or JSON file. The error is that
// of a tree that cannot be read.
func Scan(t Tree) ([]Unit, []v1alpha1.Finding, error) {
	files, bad, err := list(t)
	if err != nil {
		return nil, nil, err
	}
	ignored, err := readIgnore(files)
	if err != nil {
		return nil, nil, err
	}
	var findings []v1alpha1.Finding
	for _, b := range bad {
		if matters(b, ignored) {
			findings = append(findings, v1alpha1.Finding{File: b.Path, Rule: b.Rule, Message: b.Message})
		}
	}
	var units []Unit
	cues := map[string][]File{}
	for _, f := range files {
		if hidden(f.Path) || ignored.match(f.Path) {
			continue
		}
		if f.Mode.Type() != 0 {
			findings = appendSpecial(findings, f)
			continue
		}
		switch path.Ext(f.Path) {
		case ".yaml", ".yml":
			units = append(units, Unit{Path: f.Path, Hash: f.Blob, file: f})
		case ".json":
			units = append(units, Unit{Path: f.Path, Hash: f.Blob, file: f, format: formatJSON})
		case ".cue":
			if !inModuleFolder(f.Path) && !strings.HasSuffix(f.Path, "_tool.cue") && !strings.HasSuffix(f.Path, "_test.cue") {
				dir := path.Dir(f.Path)
				cues[dir] = append(cues[dir], f)
			}
		}
	}
	packages, more, err := cueUnits(files, cues)
	if err != nil {
		return nil, nil, err
	}
	units = append(units, packages...)
	sort.SliceStable(units, func(i, j int) bool { return units[i].Path < units[j].Path })
	return units, append(findings, more...), nil
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

func wanted(p string) bool {
	return !hidden(p) && slices.Contains([]string{".yaml", ".yml", ".json", ".cue"}, path.Ext(p))
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

// hashFiles joins the hashes of the files that a CUE package reads.
func hashFiles(files []File) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s %s\n", f.Blob, f.Path)
	}
	return hex.EncodeToString(h.Sum(nil)[:20])
}
