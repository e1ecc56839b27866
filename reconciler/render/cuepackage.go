package render

import (
	"bytes"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	cuebuild "cuelang.org/go/cue/build"
	"cuelang.org/go/cue/load"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Rooted is a Tree that knows which folder of the repository it walks.
type Rooted interface{ Root() string }

// PolicyFolder is the folder of the policies: in the followed folder and in
// the root of the repository. It has no manifests.
const PolicyFolder = "policy"

// PolicyFiles are the CUE files of the policies of a tree.
type PolicyFiles struct {
	// Hash changes when anything changes that they read; "" when there is none.
	Hash     string
	Findings []v1alpha1.Finding

	dirs  []string
	files []File
}

// HealthFolder is the folder of the health rules: in the followed folder and in
// the root of the repository. Its CUE files are no manifests.
const HealthFolder = "health"

// Policies finds the policies of a tree.
func Policies(t Tree) (PolicyFiles, error) { return rulesIn(t, PolicyFolder) }

// HealthRules finds the health rules of a tree.
func HealthRules(t Tree) (PolicyFiles, error) { return rulesIn(t, HealthFolder) }

// rule says whether a file is a policy or a health rule.
func (s *scanner) rule(p string) bool {
	dir := path.Dir(p)
	if path.Base(dir) != PolicyFolder && path.Base(dir) != HealthFolder {
		return false
	}
	root, ok := s.tree.(Rooted)
	return path.Dir(dir) == "." || ok && path.Dir(dir) == path.Clean(root.Root())
}

// rulesIn finds the CUE files of a folder of rules.
func rulesIn(t Tree, folder string) (PolicyFiles, error) {
	var findings []v1alpha1.Finding
	var files []File
	if _, ok := t.(Outside); !ok { // else the folders can be asked for
		var err error
		if files, _, err = list(t); err != nil {
			return PolicyFiles{}, err
		}
	}
	x := newIndex(t, files)
	dirs := []string{folder}
	if r, ok := t.(Rooted); ok && path.Clean(r.Root()) != "." {
		dirs = append(dirs, path.Join(r.Root(), folder))
	}
	set := map[string]File{}
	var roots []string
	for _, dir := range dirs {
		below, err := x.below(dir)
		var bad *FileError
		if errors.As(err, &bad) {
			findings = append(findings, v1alpha1.Finding{File: bad.Path, Rule: bad.Rule, Message: bad.Message})
			continue
		}
		if err != nil {
			return PolicyFiles{}, err
		}
		for _, f := range below {
			if path.Ext(f.Path) != ".cue" || path.Dir(f.Path) != dir || strings.HasSuffix(f.Path, "_test.cue") {
				continue
			}
			if f.Size > maxFileSize {
				findings = append(findings, tooLarge(f.Path, f.Size))
				continue
			}
			if !slices.Contains(roots, dir) {
				roots = append(roots, dir)
			}
			set[f.Path] = f
		}
	}
	if len(roots) == 0 {
		return PolicyFiles{Findings: findings}, nil
	}
	if err := addModules(t, x, set, roots); err != nil {
		return PolicyFiles{}, err
	}
	var all []File
	for _, f := range set {
		all = append(all, f)
	}
	slices.SortFunc(all, byPath)
	return PolicyFiles{Hash: hashFiles(all), Findings: findings, dirs: roots, files: all}, nil
}

// RuleSources is the CUE files of rules with what they hold: all that a child
// needs to load them.
type RuleSources struct {
	Hash  string // of PolicyFiles
	Dirs  []string
	Files map[string][]byte
}

// Read reads the files.
func (p PolicyFiles) Read() (RuleSources, error) {
	out := RuleSources{Hash: p.Hash, Dirs: p.dirs, Files: make(map[string][]byte, len(p.files))}
	for _, f := range p.files {
		data, err := f.read(maxFileSize)
		if err != nil {
			return RuleSources{}, err
		}
		out.Files[f.Path] = data
	}
	return out, nil
}

// Load loads the packages, and says what is wrong with them.
func (s RuleSources) Load() (packages []*cuebuild.Instance, findings []v1alpha1.Finding) {
	files := make([]File, 0, len(s.Files))
	for p, data := range s.Files {
		files = append(files, File{Path: p, Size: int64(len(data)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }})
	}
	slices.SortFunc(files, byPath)
	m := &cueModule{fs: newCUEFS(files)}
	for _, dir := range s.Dirs {
		u := &Unit{Path: dir, cue: m}
		out := &Rendered{unit: u}
		for _, inst := range load.Instances([]string{"."}, loadConfig(u, "*")) {
			if inst.Err != nil {
				out.cueError(u, inst.Err)
				continue
			}
			packages = append(packages, inst)
		}
		findings = append(findings, out.Findings...)
	}
	return packages, findings
}

// addModules adds the modules that the packages of some folders belong to:
// their cue.mod and all CUE files of the tree that they may import.
func addModules(t Tree, x *index, set map[string]File, dirs []string) error {
	for _, dir := range dirs {
		for at := dir; ; at = path.Dir(at) {
			_, ok, err := x.file(path.Join(at, "cue.mod", "module.cue"))
			if err != nil {
				return err
			}
			if ok {
				more, err := x.below(path.Join(at, "cue.mod"))
				if err != nil {
					return err
				}
				files, _, err := list(t)
				if err != nil {
					return err
				}
				for _, f := range append(files, more...) {
					if path.Ext(f.Path) == ".cue" && f.Mode.Type() == 0 && f.Size <= maxFileSize {
						set[f.Path] = f
					}
				}
			}
			if at == "." {
				break
			}
		}
	}
	return nil
}

// loadConfig loads a package from the files of a unit and no others.
func loadConfig(u *Unit, name string) *load.Config {
	return &load.Config{
		Dir: "/" + u.Path, FS: u.cue.fs, Package: name, Registry: noRegistry{}, AcceptLegacyModules: true,
		FromFSPath: func(p string) string { return strings.TrimPrefix(p, "/") },
	}
}

// CUEFindings are the findings of an error of CUE about a package of a folder,
// each at the place in that folder where there is one.
func CUEFindings(dir string, err error) []v1alpha1.Finding {
	u := &Unit{Path: dir}
	out := &Rendered{unit: u}
	out.cueError(u, err)
	return out.Findings
}
