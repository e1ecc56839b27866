package render

import (
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"

	"cuelang.org/go/cue/parser"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// cueModule is the CUE files of a tree, shared by its CUE units.
type cueModule struct {
	fs *cueFS
}

// header is the part of a CUE file that says what else its package reads.
type header struct {
	pkg     string
	imports []string
}

// cueUnits makes a unit of every folder with CUE files. Its hash covers what
// the package can read: its own files, those of the folders above (a package
// spans them) and, in turn, of all packages of the tree that it imports.
func cueUnits(s *scanner, all []File, byDir map[string][]File) ([]*Unit, []v1alpha1.Finding, error) {
	if len(byDir) == 0 {
		return nil, nil, nil
	}
	var files []File
	for _, f := range all {
		if f.Mode.Type() == 0 && path.Ext(f.Path) == ".cue" {
			files = append(files, f)
		}
	}
	d := &cueDeps{m: &cueModule{fs: newCUEFS(files)}, dirs: map[string][]File{}, modules: map[string]string{}, imports: map[string][]string{}}
	var findings []v1alpha1.Finding
	for _, f := range files {
		if f.Size > maxFileSize {
			findings = append(findings, tooLarge(f.Path, f.Size))
			continue
		}
		d.dirs[path.Dir(f.Path)] = append(d.dirs[path.Dir(f.Path)], f)
	}
	if len(findings) > 0 {
		return nil, findings, nil
	}
	if err := d.read(files); err != nil {
		return nil, nil, err
	}
	var units []*Unit
	for dir := range byDir {
		reads := d.closure(dir)
		units = append(units, &Unit{Path: dir, Hash: hashFiles(reads), format: formatCUE, cue: d.m, cueFiles: reads, opts: &unbound})
	}
	return units, nil, nil
}

// cueDeps finds what CUE packages read.
type cueDeps struct {
	m       *cueModule
	dirs    map[string][]File
	modules map[string]string   // root folder -> module path
	imports map[string][]string // folder -> import paths
}

// read parses the headers of all files, and the module files.
func (d *cueDeps) read(files []File) error {
	for _, f := range files {
		data, err := f.read(maxFileSize)
		if err != nil {
			return err
		}
		dir := path.Dir(f.Path)
		if path.Base(dir) == "cue.mod" && path.Base(f.Path) == "module.cue" {
			d.modules[path.Dir(dir)] = moduleName(data)
			continue
		}
		d.imports[dir] = append(d.imports[dir], readHeader(f.Path, data).imports...)
	}
	return nil
}

func readHeader(name string, data []byte) header {
	var h header
	// What is wrong with the file is said when the package is loaded.
	f, _ := parser.ParseFile(name, data, parser.ImportsOnly)
	if f == nil {
		return h
	}
	h.pkg = f.PackageName()
	for spec := range f.ImportSpecs() {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			h.imports = append(h.imports, p)
		}
	}
	return h
}

// moduleName reads the module path out of a module file, without its version.
func moduleName(data []byte) string {
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "module:"); ok {
			name, _, _ := strings.Cut(strings.Trim(strings.TrimSpace(rest), `"`), "@")
			return name
		}
	}
	return ""
}

// closure returns the files that the package of a folder can read, by path.
func (d *cueDeps) closure(dir string) []File {
	seen := map[string]bool{}
	var visit func(dir string)
	visit = func(dir string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		for _, imp := range d.imports[dir] {
			for _, target := range d.resolve(dir, imp) {
				visit(target)
			}
		}
		if dir != "." {
			visit(path.Dir(dir))
		}
		if mod := path.Join(dir, "cue.mod"); len(d.dirs[mod]) > 0 {
			visit(mod)
		}
	}
	visit(dir)
	var out []File
	for s := range seen {
		out = append(out, d.dirs[s]...)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return slices.CompactFunc(out, func(a, b File) bool { return a.Path == b.Path })
}

// resolve returns the folders of the tree that an import may mean.
func (d *cueDeps) resolve(from, imp string) []string {
	imp, _, _ = strings.Cut(imp, ":")
	imp, version, _ := strings.Cut(imp, "@")
	if _, rest, ok := strings.Cut(version, "/"); ok {
		imp += "/" + rest
	}
	var out []string
	for root, name := range d.modules {
		if name != "" && (imp == name || strings.HasPrefix(imp, name+"/")) {
			out = append(out, path.Join(root, strings.TrimPrefix(imp, name)))
		}
		for _, vendor := range []string{"pkg", "gen", "usr"} {
			out = append(out, path.Join(root, "cue.mod", vendor, imp))
		}
	}
	return out
}
