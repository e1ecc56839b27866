package render

import (
	"path"
	"strings"

	"cuelang.org/go/cue/token"
)

// generator finds the entry of a kustomization that made an object.
func (p *places) generator(n *node, o origin) *node {
	list := map[string]string{"ConfigMapGenerator": "configMapGenerator", "SecretGenerator": "secretGenerator"}[o.ConfiguredBy.Kind]
	in := path.Join(p.b.root.dir, o.ConfiguredIn)
	name := n.str("metadata", "name")
	var best *node
	dir := ""
	for _, k := range p.b.all {
		if k.file.Path != in && path.Dir(in) != k.dir {
			continue
		}
		for _, g := range k.root.list(list) {
			was := g.str("name")
			if strings.Contains(name, was) && (best == nil || len(was) > len(best.str("name"))) {
				best, dir = g, k.dir
			}
		}
	}
	if best == nil {
		return nil
	}
	// The entry is no manifest: the name and the data are fields of the object.
	out := &node{kind: mapNode, pos: best.pos}
	if f := best.entry("name"); f != nil {
		out.fields = []field{{"metadata", f.pos, &node{kind: mapNode, pos: f.pos, fields: []field{*f}}}}
	}
	if f := best.entry("type"); f != nil {
		out.fields = append(out.fields, *f)
	}
	for _, key := range []string{"data", "binaryData"} {
		if data := p.generated(best, dir, n.get(key)); data != nil {
			out.fields = append(out.fields, field{key, best.pos, data})
		}
	}
	return out
}

// generated gives the data of an object the places that an entry takes them
// from: its own literals, the lines of env files, the first lines of files.
func (p *places) generated(g *node, dir string, data *node) *node {
	if data == nil || data.kind != mapNode {
		return nil
	}
	from := map[string]token.Pos{}
	for _, l := range g.list("literals") {
		if key, _, ok := strings.Cut(l.text, "="); ok {
			from[key] = l.pos
		}
	}
	for _, l := range g.list("files") {
		key, file, ok := strings.Cut(l.text, "=")
		if !ok {
			key, file = path.Base(l.text), l.text
		}
		from[key] = p.line(path.Join(dir, file), 0, l.pos)
	}
	envs := g.list("envs")
	if e := g.get("env"); e != nil {
		envs = append(envs, e)
	}
	for _, l := range envs {
		offset, file := 0, path.Join(dir, l.text)
		for line := range strings.Lines(string(p.texts[file])) {
			if key, _, _ := strings.Cut(strings.TrimSpace(line), "="); key != "" && key[0] != '#' {
				from[key] = p.line(file, offset, l.pos)
			}
			offset += len(line)
		}
	}
	out := &node{kind: mapNode, pos: g.pos}
	for _, f := range data.fields {
		if pos, ok := from[f.key]; ok {
			out.fields = append(out.fields, field{f.key, pos, &node{kind: f.val.kind, pos: pos, text: f.val.text}})
		}
	}
	return out
}

// line is a place in a file that was read; otherwise where it is not known.
func (p *places) line(file string, offset int, otherwise token.Pos) token.Pos {
	text, ok := p.texts[file]
	if !ok {
		return otherwise
	}
	f := token.NewFile(file, -1, len(text)+1)
	f.SetLinesForContent(text)
	return f.Pos(offset, token.NoRelPos)
}
