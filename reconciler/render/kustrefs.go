package render

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// refKind says what an entry of a field of a kustomization may name.
type refKind int

const (
	noRefs      refKind = iota
	folderRefs          // files, or folders with a kustomization
	fileRefs            // files
	pluginRefs          // like folderRefs, or the text of plug-in configurations
	patchRefs           // files, or the text of a patch
	pathRefs            // maps whose "path" is a file
	sourceRefs          // generators with files, envs and env
	schemaRefs          // a map whose "path" is a file
	refusedRefs         // what runs programs or asks the network
)

// kustomizationFields are the fields of a kustomization, and what they read.
// What this table misses a build does not find: it reads these files only.
var kustomizationFields = map[string]refKind{
	"apiVersion": noRefs, "kind": noRefs, "metadata": noRefs,
	"resources": folderRefs, "components": folderRefs, "bases": folderRefs,
	"crds": fileRefs, "configurations": fileRefs,
	"generators": pluginRefs, "transformers": pluginRefs, "validators": pluginRefs,
	"patchesStrategicMerge": patchRefs, "patches": pathRefs, "patchesJson6902": pathRefs, "replacements": pathRefs,
	"configMapGenerator": sourceRefs, "secretGenerator": sourceRefs, "openapi": schemaRefs,
	"helmCharts": refusedRefs, "helmChartInflationGenerator": refusedRefs, "helmGlobals": refusedRefs,
	"namePrefix": noRefs, "nameSuffix": noRefs, "namespace": noRefs, "commonLabels": noRefs, "labels": noRefs,
	"commonAnnotations": noRefs, "images": noRefs, "imageTags": noRefs, "replicas": noRefs, "vars": noRefs,
	"sortOptions": noRefs, "generatorOptions": noRefs, "buildMetadata": noRefs,
}

// references finds what one kustomization names.
type references struct {
	s *scanner
	k *kustomization
}

func (r *references) read() error {
	r.k.unknownFields()
	r.k.misspelled()
	if r.k.root == nil {
		return nil
	}
	for _, f := range r.k.root.fields {
		if err := r.field(f.key, kustomizationFields[f.key], f.val); err != nil {
			return err
		}
	}
	return nil
}

func (r *references) field(name string, kind refKind, v *node) error {
	switch kind {
	case noRefs:
		return nil
	case refusedRefs:
		r.k.refuse(v, name, name+" runs the helm program, which is not done",
			"commit the chart, and ask for it with a HelmRelease (apiVersion: writ.dev/v1alpha1, spec.chart: ./folder)")
		return nil
	case schemaRefs:
		return r.path(name, v.get("path"))
	}
	for _, item := range v.items {
		var err error
		switch {
		case item.kind == mapNode && kind == pathRefs:
			err = r.path(name, item.get("path"))
		case item.kind == mapNode && kind == sourceRefs:
			err = r.sources(name, item)
		case item.kind != stringNode || kind == patchRefs && strings.ContainsAny(item.text, "\n{"):
		case kind == pluginRefs:
			err = r.plugin(name, item)
		case kind == folderRefs:
			var f *File
			if f, err = r.entry(name, item, item.text, true); f != nil {
				if r.k.manifests == nil {
					r.k.manifests = map[string]bool{}
				}
				r.k.manifests[f.Path] = true
			}
		default:
			err = r.path(name, item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// path takes in the file that a node names; nil names none.
func (r *references) path(field string, n *node) error {
	if n == nil || n.kind != stringNode {
		return nil
	}
	_, err := r.entry(field, n, n.text, false)
	return err
}

// entry takes in the file or folder of one entry, and returns the file.
func (r *references) entry(field string, n *node, text string, folders bool) (*File, error) {
	p := path.Join(r.k.dir, text)
	switch {
	case isRemote(text):
		r.k.refuse(n, field, quoteShort(text)+" is not in this repository, and nothing is fetched while it is rendered",
			"commit a copy, and name its folder; so the commit says all that runs")
		return nil, nil
	case path.IsAbs(text) || !inside(p):
		r.k.refuse(n, field, quoteShort(text)+" leads out of the repository", "name a path relative to the kustomization")
		return nil, nil
	}
	f, ok, err := r.s.index.file(p)
	var bad *FileError
	switch {
	case errors.As(err, &bad):
		r.k.refuse(n, field, text+": "+bad.Message, "")
		return nil, nil
	case err != nil:
		return nil, err
	case ok:
		if !slices.ContainsFunc(r.k.files, func(g File) bool { return g.Path == f.Path }) {
			r.k.files = append(r.k.files, f)
		}
		return &f, nil
	}
	if b := r.s.bad[p]; b != nil {
		r.k.refuse(n, field, text+": "+b.Message, "")
		return nil, nil
	}
	if !folders {
		r.k.refuse(n, field, "there is no file "+p, r.near(p))
		return nil, nil
	}
	k, err := r.s.kustomization(p)
	if err != nil {
		return nil, err
	}
	if k == nil && r.s.dirs[p] == nil {
		if hint := r.near(p); hint != "" {
			r.k.refuse(n, field, "there is neither a file nor a folder with a kustomization at "+p, hint)
		} else {
			r.k.refuse(n, field, "there is neither a file nor a folder with a kustomization at "+p, "commit it, or remove the line")
		}
		return nil, nil
	}
	r.k.refs = append(r.k.refs, p)
	return nil, nil
}

// near names a file of the same folder that the author may mean.
func (r *references) near(p string) string {
	names := map[string]bool{}
	dir := path.Dir(p)
	for _, f := range r.s.index.under(dir) {
		rest := f.Path
		if dir != "." {
			rest = strings.TrimPrefix(rest, dir+"/")
		}
		first, _, _ := strings.Cut(rest, "/")
		names[first] = true
	}
	if n := nearest(path.Base(p), names); n != "" {
		return "did you mean " + n + "?"
	}
	return ""
}

// sources takes in the files of a generator.
func (r *references) sources(field string, g *node) error {
	for _, n := range g.list("files") {
		text := n.text
		if _, after, ok := strings.Cut(text, "="); ok {
			text = after
		}
		if _, err := r.entry(field, n, text, false); err != nil {
			return err
		}
	}
	envs := g.list("envs")
	if env := g.get("env"); env != nil {
		envs = append(slices.Clone(envs), env)
	}
	for _, n := range envs {
		f, err := r.entry(field, n, n.text, false)
		if err != nil || f == nil {
			return err
		}
		if err := r.environment(*f); err != nil {
			return err
		}
	}
	return nil
}

// environment refuses lines that name a variable and no value: kustomize would
// take the value from the environment of this process.
func (r *references) environment(f File) error {
	data, err := f.read(maxFileSize)
	if err != nil {
		return err
	}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		text = bytes.TrimSpace(text)
		if len(text) == 0 || text[0] == '#' || bytes.IndexByte(text, '=') >= 0 {
			continue
		}
		r.k.refuse(&node{}, "", fmt.Sprintf("%s has no value", quoteShort(string(text))), "write NAME=value")
		last := &r.k.findings[len(r.k.findings)-1]
		last.File, last.Line, last.Column = f.Path, line, 1
	}
	return nil
}

// plugin takes in the configuration of a generator, transformer or validator,
// and what it names in turn. Programs and containers are not run.
func (r *references) plugin(field string, n *node) error {
	var out Rendered
	if strings.Contains(n.text, "\n") {
		var err error
		readYAML(&out, r.k.file.Path, []byte(n.text), func(doc *node) {
			replant(doc, n)
			err = errors.Join(err, r.config(field, r.k.dir, doc))
		})
		return err
	}
	f, err := r.entry(field, n, n.text, true)
	if err != nil {
		return err
	}
	if f != nil {
		return r.configFile(field, *f)
	}
	return r.configFolder(field, path.Join(r.k.dir, n.text), 0)
}

// configFolder looks into the configurations that another kustomization makes.
func (r *references) configFolder(field, dir string, depth int) error {
	k := r.s.dirs[dir]
	if k == nil || depth > maxDepth {
		return nil
	}
	for _, f := range k.files {
		if err := r.configFile(field, f); err != nil {
			return err
		}
	}
	for _, ref := range k.refs {
		if err := r.configFolder(field, ref, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// replant gives the values of a text that is a document the place of the text.
func replant(doc, text *node) {
	doc.pos = text.pos
	for i := range doc.fields {
		doc.fields[i].pos = text.pos
		replant(doc.fields[i].val, text)
	}
	for _, item := range doc.items {
		replant(item, text)
	}
}

func (r *references) configFile(field string, f File) error {
	data, err := f.read(maxFileSize)
	if err != nil {
		return err
	}
	var out Rendered
	readYAML(&out, f.Path, data, func(doc *node) { err = errors.Join(err, r.config(field, path.Dir(f.Path), doc)) })
	return err
}

func (r *references) config(field, dir string, doc *node) error {
	r.builtin(field, doc, doc)
	var visit func(n *node) error
	visit = func(n *node) error {
		for _, f := range n.fields {
			if err := visit(f.val); err != nil {
				return err
			}
		}
		for _, item := range n.items {
			if err := visit(item); err != nil {
				return err
			}
		}
		if n.kind != stringNode || strings.ContainsAny(n.text, "\n") || len(n.text) > 256 {
			return nil
		}
		if isRemote(n.text) {
			r.k.refuse(n, field, quoteShort(n.text)+" is not in this repository, and nothing is fetched while it is rendered", "commit a copy, and name its path")
			return nil
		}
		text := n.text
		if _, after, ok := strings.Cut(text, "="); ok {
			text = after
		}
		for _, from := range []string{r.k.dir, dir} {
			f, ok, err := r.s.index.file(path.Join(from, text))
			if err != nil {
				return err
			}
			if ok {
				r.k.files = append(r.k.files, f)
			}
		}
		return nil
	}
	return visit(doc)
}

// builtin refuses a plug-in that is not part of kustomize.
func (r *references) builtin(field string, where, doc *node) {
	kind := doc.str("kind")
	switch {
	case strings.HasPrefix(kind, "HelmChartInflationGenerator"):
		r.k.refuse(where, field, kind+" runs the helm program, which is not done",
			"commit the chart, and ask for it with a HelmRelease (apiVersion: writ.dev/v1alpha1, spec.chart: ./folder)")
	case doc.str("apiVersion") != "builtin" || doc.get("metadata", "annotations", "config.kubernetes.io/function") != nil:
		r.k.refuse(where, field, fmt.Sprintf("the plug-in %s runs a program or a container, which is not done", kind),
			"use the plug-ins of kustomize itself (apiVersion: builtin), or commit what the plug-in makes")
	}
}
