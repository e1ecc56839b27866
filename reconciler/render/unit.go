package render

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/writ-os/writ/schema/v1alpha1"
)

type format int

const (
	formatYAML format = iota
	formatJSON
	formatCUE
	formatKustomize
)

// Unit is what is rendered together: one YAML or JSON file with the charts
// that it asks for, the files of one CUE package, or a kustomization with all
// that it builds upon.
type Unit struct {
	// Path is the file, or the folder of a CUE package, or the kustomization
	// file.
	Path string
	// Hash changes when anything changes that the unit reads. For a file by
	// itself it is the Git hash of its content.
	Hash string

	format format
	opts   *Options
	file   *File
	cue    *cueModule
	kust   *build
	charts map[string]*chartFiles // by folder
	values map[string]File        // of the releases, by path

	cueFiles []File // that the package can read

	child bool // this is a child: manifests are left to the server
}

// CUE says whether the unit is a CUE package.
func (u *Unit) CUE() bool { return u.format == formatCUE }

// fileSet is files by path, within bounds.
type fileSet struct {
	files map[string]File
	size  int64
}

// add takes a file in; false when the set would become too large.
func (s *fileSet) add(f File) bool {
	if s.files == nil {
		s.files = map[string]File{}
	}
	if _, ok := s.files[f.Path]; ok {
		return true
	}
	if s.size += f.Size; s.size > maxUnitSize || len(s.files) >= maxUnitFile || f.Size > maxFileSize {
		return false
	}
	s.files[f.Path] = f
	return true
}

// sorted lists the files by path.
func (s *fileSet) sorted() []File {
	out := make([]File, 0, len(s.files))
	for _, f := range s.files {
		out = append(out, f)
	}
	slices.SortFunc(out, byPath)
	return out
}

func (s *fileSet) finding(file string) v1alpha1.Finding {
	return v1alpha1.Finding{File: file, Rule: "TooLarge",
		Message: fmt.Sprintf("reads more than %s or %d files", megabytes(maxUnitSize), maxUnitFile), Hint: "split it"}
}

// known are the findings that the scan has about the unit. They may come from
// files that the unit does not read, or from none.
func (u *Unit) known() []v1alpha1.Finding {
	var out []v1alpha1.Finding
	if u.kust != nil {
		out = append(out, u.kust.findings...)
	}
	for _, dir := range slices.Sorted(maps.Keys(u.charts)) {
		out = append(out, u.charts[dir].findings...)
	}
	return out
}

// hashFiles joins the hashes of the files that a unit reads, and what is known
// to be wrong with it.
func hashFiles(files []File, known ...v1alpha1.Finding) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s %s\n", f.Blob, f.Path)
	}
	for _, f := range known {
		fmt.Fprintf(h, "%q\n", []any{f.File, f.Line, f.Column, f.Object, f.Field, f.Rule, f.Message, f.Hint})
	}
	return hex.EncodeToString(h.Sum(nil)[:20])
}
