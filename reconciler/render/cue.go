package render

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	cueerrors "cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/load"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
	"cuelang.org/go/mod/modfile"
	"cuelang.org/go/mod/module"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// maxSearch is how many levels below the package the manifests are looked for.
const maxSearch = 5

// renderCUE evaluates a package.
func renderCUE(out *Rendered) {
	var nodes []*node
	out.evaluate(func(n *node) { nodes = append(nodes, n) })
	for _, n := range nodes {
		identify(out, n)
	}
}

// evaluate loads the packages of the unit's folder and finds their manifests.
func (out *Rendered) evaluate(found func(*node)) {
	u := out.unit
	names, err := packageNames(u)
	if err != nil {
		out.cueError(u, err)
		return
	}
	for _, name := range names {
		config := loadConfig(u, name)
		config.Tags = tags(u, name)
		for _, inst := range load.Instances([]string{"."}, config) {
			if inst.Err != nil {
				out.cueError(u, inst.Err)
				continue
			}
			v := cuecontext.New().BuildInstance(inst)
			if err := v.Validate(); err != nil {
				out.cueError(u, err)
				continue
			}
			out.search(u, v, v.Pos(), 0, found)
		}
	}
}

// packageNames lists the packages of a folder; "_" stands for files of none.
func packageNames(u *Unit) ([]string, error) {
	entries, err := u.cue.fs.ReadDir(u.Path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		p := path.Join(u.Path, e.Name())
		if e.IsDir() || hidden(p) {
			continue
		}
		data, err := u.cue.fs.ReadFile(p)
		if err != nil {
			return nil, err
		}
		name := readHeader(p, data).pkg
		if name == "" {
			name = "_"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// tags are the variables of the cluster that the package asks for by a @tag
// attribute. Others cannot be given: CUE takes them for mistakes.
func tags(u *Unit, name string) []string {
	if u.opts == nil || len(u.opts.Variables) == 0 {
		return nil
	}
	wanted := map[string]bool{}
	for dir := u.Path; ; dir = path.Dir(dir) {
		for _, base := range u.cue.fs.dirs[dir] {
			p := path.Join(dir, base)
			if path.Ext(p) != ".cue" {
				continue
			}
			data, err := u.cue.fs.ReadFile(p)
			if err != nil {
				continue // said when the package is loaded
			}
			f, _ := parser.ParseFile(p, data)
			if f == nil || f.PackageName() != name && (name != "_" || f.PackageName() != "") {
				continue
			}
			ast.Walk(f, func(n ast.Node) bool {
				if a, ok := n.(*ast.Attribute); ok {
					if key, body := a.Split(); key == "tag" {
						word, _, _ := strings.Cut(body, ",")
						wanted[strings.TrimSpace(word)] = true
					}
				}
				return true
			}, nil)
		}
		if dir == "." {
			break
		}
	}
	var out []string
	for key := range wanted {
		if v, ok := u.opts.Variables[key]; ok {
			out = append(out, key+"="+v)
		}
	}
	slices.Sort(out)
	return out
}

// search collects the structs that have an apiVersion and a kind. Hidden
// fields, definitions and optional fields are not exported, as in cue export.
// near is the place in this package that led to the value.
func (r *Rendered) search(u *Unit, v cue.Value, near token.Pos, depth int, found func(*node)) {
	if depth > maxSearch {
		return
	}
	if p := v.Pos(); p.IsValid() && path.Dir(strings.TrimPrefix(p.Filename(), "/")) == u.Path {
		near = p
	}
	switch v.IncompleteKind() {
	case cue.StructKind:
		if isManifest(v) {
			r.export(u, v, near, found)
			return
		}
		for it, err := v.Fields(); err == nil && it.Next(); {
			r.search(u, it.Value(), near, depth+1, found)
		}
	case cue.ListKind:
		for it, err := v.List(); err == nil && it.Next(); {
			r.search(u, it.Value(), near, depth+1, found)
		}
	}
}

func isManifest(v cue.Value) bool {
	_, noKind := v.LookupPath(cue.ParsePath("kind")).String()
	_, noVersion := v.LookupPath(cue.ParsePath("apiVersion")).String()
	return noKind == nil && noVersion == nil
}

// export adds one manifest of the package.
func (r *Rendered) export(u *Unit, v cue.Value, near token.Pos, found func(*node)) {
	if err := v.Validate(cue.Concrete(true), cue.Final()); err != nil {
		r.cueError(u, err)
		return
	}
	n, err := cueNode(v, 0)
	if err != nil {
		r.cueError(u, err)
		return
	}
	if near.IsValid() {
		n.pos = near
	}
	found(n)
}

// cueError adds the findings of a CUE error, one for each place. Of the places
// that an error names the one in the package itself is taken, since that is
// where the author can mend it.
func (r *Rendered) cueError(u *Unit, err error) {
	var found []v1alpha1.Finding
	for _, e := range cueerrors.Errors(err) {
		f := v1alpha1.Finding{File: u.Path, Rule: "CUE", Field: strings.Join(e.Path(), ".")}
		f.Message = strings.TrimPrefix(strings.ReplaceAll(e.Error(), "\n", " "), f.Field+": ")
		for _, p := range append(cueerrors.Positions(e), e.Position()) {
			file := strings.TrimPrefix(p.Filename(), "/")
			if p.IsValid() && (f.Line == 0 || path.Dir(f.File) != u.Path && path.Dir(file) == u.Path) {
				f.File, f.Line, f.Column = file, p.Line(), p.Column()
			}
		}
		found = append(found, f)
	}
	for _, f := range inWords(found) {
		if !slices.Contains(r.Findings, f) {
			r.find(f)
		}
	}
}

// noRegistry refuses to download modules: a commit renders from itself.
type noRegistry struct{}

var errNoNetwork = errors.New("CUE modules are not downloaded: keep a copy under cue.mod/pkg in the repository")

func (noRegistry) ModFile(context.Context, module.Version) (*modfile.File, error) {
	return nil, errNoNetwork
}

func (noRegistry) Fetch(context.Context, module.Version) (module.SourceLoc, error) {
	return module.SourceLoc{}, errNoNetwork
}

func (noRegistry) ModuleVersions(context.Context, string) ([]string, error) {
	return nil, errNoNetwork
}
