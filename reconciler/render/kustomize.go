package render

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// kustomizationFiles are the names that kustomize looks for, in its order.
var kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// kustomization is one folder that kustomize builds, as far as it must be known
// to say what the build reads.
type kustomization struct {
	dir   string
	file  File
	root  *node // nil when it cannot be read
	refs  []string
	files []File
	// manifests are those of the files that are manifests, and no patches or
	// texts.
	manifests map[string]bool
	findings  []v1alpha1.Finding
}

// build is what a kustomization reads, with the others that it refers to.
type build struct {
	root     *kustomization
	all      []*kustomization // root first, then as they are referred to
	files    fileSet
	findings []v1alpha1.Finding
}

// kustomizations makes a unit of every kustomization that no other refers to.
// taken says which files belong to kustomizations: those that they read, and,
// as in Flux, all others in their folders, where what is not listed is off.
func (s *scanner) kustomizations(files []File) ([]*Unit, func(string) bool, error) {
	var roots []*kustomization
	owned := map[string]bool{}
	s.owned = owned
	for _, f := range files {
		if !isKustomization(f.Path) || hidden(f.Path) || s.ignored.match(f.Path) || s.inChart(f.Path) || f.Mode.Type() != 0 {
			continue
		}
		k, err := s.kustomization(path.Dir(f.Path))
		if err != nil {
			return nil, nil, err
		}
		if k != nil && !owned[k.dir] {
			owned[k.dir] = true
			roots = append(roots, k)
		}
	}
	referred := map[string]bool{}
	read := map[string]bool{}
	var units []*Unit
	for _, k := range s.dirs {
		if k == nil {
			continue
		}
		for _, ref := range k.refs {
			referred[ref] = referred[ref] || ref != k.dir
		}
		for _, f := range k.files {
			read[f.Path] = true
		}
	}
	for _, k := range roots {
		if s.cyclic(k) {
			k.refuse(k.root, "resources", "the kustomization builds upon itself, by way of "+strings.Join(k.refs, " or "), "remove one of the references")
		}
		if referred[k.dir] && !s.cyclic(k) || k.component() {
			continue
		}
		u, err := s.buildUnit(k)
		if err != nil {
			return nil, nil, err
		}
		units = append(units, u)
	}
	return units, func(p string) bool {
		if read[p] {
			return true
		}
		for dir := path.Dir(p); ; dir = path.Dir(dir) {
			if owned[dir] {
				return true
			}
			if dir == "." {
				return false
			}
		}
	}, nil
}

func isKustomization(p string) bool { return slices.Contains(kustomizationFiles, path.Base(p)) }

func (k *kustomization) component() bool { return k.root.str("kind") == "Component" }

// cyclic says whether a kustomization refers to itself by way of others: no
// other would report it.
func (s *scanner) cyclic(k *kustomization) bool {
	seen := map[string]bool{}
	var visit func(dir string) bool
	visit = func(dir string) bool {
		if seen[dir] || s.dirs[dir] == nil {
			return false
		}
		seen[dir] = true
		for _, ref := range s.dirs[dir].refs {
			if ref == k.dir || visit(ref) {
				return true
			}
		}
		return false
	}
	return visit(k.dir)
}

// buildUnit gathers all that one build reads.
func (s *scanner) buildUnit(k *kustomization) (*Unit, error) {
	b := &build{root: k}
	u := &Unit{Path: k.file.Path, format: formatKustomize, kust: b, opts: &unbound, file: &k.file}
	seen := map[string]bool{}
	full := false
	var visit func(k *kustomization)
	visit = func(k *kustomization) {
		if k == nil || seen[k.dir] {
			return
		}
		seen[k.dir] = true
		b.all = append(b.all, k)
		b.findings = append(b.findings, k.findings...)
		for _, f := range append([]File{k.file}, k.files...) {
			if !b.files.add(f) {
				full = true
			}
		}
		for _, ref := range k.refs {
			visit(s.dirs[ref])
		}
	}
	visit(k)
	if full {
		b.findings = append(b.findings, b.files.finding(u.Path))
	}
	for _, f := range b.files.sorted() {
		if isManifestFile(f.Path) && !isKustomization(f.Path) {
			if err := s.addReleases(u, f); err != nil {
				return u, err
			}
		}
	}
	u.Hash = hashFiles(append(b.files.sorted(), u.chartFiles()...), u.known()...)
	return u, nil
}

// kustomization reads the kustomization of a folder and all that it refers to;
// nil when there is none.
func (s *scanner) kustomization(dir string) (*kustomization, error) {
	if k, ok := s.dirs[dir]; ok {
		return k, nil
	}
	s.dirs[dir] = nil
	var k *kustomization
	for _, name := range kustomizationFiles {
		f, ok, err := s.index.file(path.Join(dir, name))
		var bad *FileError
		if errors.As(err, &bad) {
			continue // the walk has reported it
		}
		if err != nil {
			return nil, err
		}
		if ok && k != nil {
			k.findings = append(k.findings, v1alpha1.Finding{File: f.Path, Rule: "Kustomize",
				Message: "the folder has also " + path.Base(k.file.Path), Hint: "remove one of the two"})
		} else if ok {
			k = &kustomization{dir: dir, file: f}
		}
	}
	if k == nil {
		return nil, nil
	}
	s.dirs[dir] = k
	data, err := k.file.read(maxFileSize)
	if err != nil {
		return nil, err
	}
	var out Rendered
	if f, bad := checkText(k.file.Path, data); bad {
		out.find(f)
	} else {
		readYAML(&out, k.file.Path, data, func(n *node) {
			if k.root == nil && n.kind == mapNode {
				k.root = n
			}
		})
	}
	k.findings = append(k.findings, out.Findings...)
	if k.root == nil && len(out.Findings) == 0 {
		k.findings = append(k.findings, v1alpha1.Finding{File: k.file.Path, Line: 1, Column: 1, Rule: "Kustomize",
			Message: "the kustomization is empty", Hint: "list the manifests under resources:"})
	}
	r := &references{s: s, k: k}
	if err := r.read(); err != nil {
		return nil, err
	}
	for _, ref := range slices.Clone(k.refs) {
		if _, err := s.kustomization(ref); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// isRemote says whether kustomize would fetch what an entry names.
func isRemote(entry string) bool {
	for _, sign := range []string{"://", "git::", "?ref=", "&ref=", "?version="} {
		if strings.Contains(entry, sign) {
			return true
		}
	}
	for _, host := range []string{"git@", "github.com/", "gitlab.com/", "bitbucket.org/", "github.com:"} {
		if strings.HasPrefix(entry, host) {
			return true
		}
	}
	return false
}

// refuse adds a finding at a place of the kustomization.
func (k *kustomization) refuse(n *node, field, message, hint string) {
	f := at(n.pos, "Kustomize", message)
	f.Field, f.Hint = field, hint
	k.findings = append(k.findings, f)
}

// unknownField says of a top-level field that kustomize does not have it.
func (k *kustomization) unknownFields() {
	if k.root == nil {
		return
	}
	for _, f := range k.root.fields {
		if _, ok := kustomizationFields[f.key]; ok {
			continue
		}
		finding := at(f.pos, "UnknownField", fmt.Sprintf("a kustomization has no field %s", f.key))
		finding.Field = f.key
		if near := nearest(f.key, kustomizationFields); near != "" {
			finding.Hint = "did you mean " + near + "?"
		}
		k.findings = append(k.findings, finding)
	}
}
