package render

import (
	"bytes"
	"path"
	"strings"

	"cuelang.org/go/cue/token"

	"go.yaml.in/yaml/v3"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// places finds where the fields of built objects come from. Kustomize says of
// an object which file it began in; of a field it says nothing. So a field is
// looked for in the file, then in the patches that mean the object, then among
// what the kustomizations set, and belongs where its value is the same.
type places struct {
	b       *build
	docs    map[string][]*node // manifests by file
	used    map[*node]bool     // documents that an object was found for
	patches []patchDoc
	values  map[string]token.Pos // by key and text
	images  []imageEntry

	findings []v1alpha1.Finding // of the manifests, which are YAML at least
}

// patchDoc is a strategic patch and the objects that it means.
type patchDoc struct {
	kind, name string
	node       *node
}

type imageEntry struct {
	text string
	pos  token.Pos
}

func newPlaces(b *build, contents map[string][]byte) *places {
	p := &places{b: b, docs: map[string][]*node{}, used: map[*node]bool{}, values: map[string]token.Pos{}}
	for _, k := range b.all {
		for _, f := range k.files {
			if isManifestFile(f.Path) && p.docs[f.Path] == nil {
				out := &Rendered{}
				p.docs[f.Path] = readDocsOf(out, f.Path, contents[f.Path])
				if k.manifests[f.Path] {
					p.findings = append(p.findings, out.Findings...)
				}
			}
		}
	}
	for _, k := range b.all {
		p.patchesOf(k, contents[k.file.Path])
		p.valuesOf(k)
	}
	return p
}

func readDocs(file string, data []byte) []*node { return readDocsOf(&Rendered{}, file, data) }

func readDocsOf(r *Rendered, file string, data []byte) []*node {
	var out []*node
	readYAML(r, file, data, func(n *node) {
		if items := n.list("items"); items != nil && strings.HasSuffix(n.str("kind"), "List") {
			out = append(out, items...)
			return
		}
		out = append(out, n)
	})
	return out
}

// patchesOf notes the patches of one kustomization.
func (p *places) patchesOf(k *kustomization, data []byte) {
	for _, name := range []string{"patches", "patchesStrategicMerge", "patchesJson6902"} {
		for _, item := range k.root.list(name) {
			text, file := item, item
			kind, object := "", ""
			if item.kind == mapNode {
				text, file = item.get("patch"), item.get("path")
				kind, object = item.str("target", "kind"), item.str("target", "name")
			}
			var docs []*node
			switch {
			case text != nil && strings.Contains(text.text, "\n"):
				docs = inlineDocs(k.file.Path, data, text)
			case file != nil:
				docs = p.docs[path.Join(k.dir, file.text)]
			}
			for _, doc := range docs {
				p.patch(doc, item.get("target") != nil, kind, object)
			}
		}
	}
}

// patch notes one patch: a list is one of JSON operations. Where there is no
// target the patch names its object itself.
func (p *places) patch(doc *node, target bool, kind, name string) {
	if doc.kind != listNode {
		if !target {
			kind, name = doc.str("kind"), doc.str("metadata", "name")
		}
		p.patches = append(p.patches, patchDoc{kind, name, doc})
		return
	}
	for _, op := range doc.items {
		if v := op.get("value"); v != nil {
			p.value(path.Base(op.str("path")), v)
		}
	}
}

// inlineDocs reads a patch that is written into the kustomization: its lines
// are those of the file, so the rest of the file is left blank.
func inlineDocs(file string, data []byte, text *node) []*node {
	if text.style != blockStyle {
		return nil
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	begin, end := text.pos.Line(), text.pos.Line()+strings.Count(strings.TrimRight(text.text, "\n"), "\n")+1
	if end > len(lines) {
		end = len(lines)
	}
	if begin >= end {
		return nil
	}
	blank := bytes.Repeat([]byte("\n"), begin)
	return readDocs(file, append(blank, bytes.Join(lines[begin:end], nil)...))
}

// value notes where the scalars of a value are; the first place stays.
func (p *places) value(key string, v *node) {
	switch v.kind {
	case mapNode:
		for _, f := range v.fields {
			p.value(f.key, f.val)
		}
	case listNode:
		for _, item := range v.items {
			p.value(key, item)
		}
	default:
		p.set(key, v.text, v.pos)
	}
}

func (p *places) set(key, text string, pos token.Pos) {
	if _, ok := p.values[key+"\x00"+text]; !ok {
		p.values[key+"\x00"+text] = pos
	}
}

// valuesOf notes what the fields of a kustomization set in objects.
func (p *places) valuesOf(k *kustomization) {
	if n := k.root.get("namespace"); n != nil {
		p.set("namespace", n.text, n.pos)
	}
	for _, n := range k.root.list("replicas") {
		if c := n.get("count"); c != nil {
			p.set("replicas", c.text, c.pos)
		}
	}
	maps := []*node{k.root.get("commonLabels"), k.root.get("commonAnnotations")}
	for _, n := range k.root.list("labels") {
		maps = append(maps, n.get("pairs"))
	}
	for _, generator := range []string{"configMapGenerator", "secretGenerator"} {
		for _, g := range k.root.list(generator) {
			maps = append(maps, g.get("options", "labels"), g.get("options", "annotations"))
			for _, l := range g.list("literals") {
				if key, text, ok := strings.Cut(l.text, "="); ok {
					p.set(key, strings.Trim(text, `"'`), l.pos)
				}
			}
		}
	}
	for _, m := range maps {
		if m != nil && m.kind == mapNode {
			p.value("", m)
		}
	}
	for _, n := range k.root.list("images") {
		for _, name := range []string{"digest", "newTag", "newName"} {
			if v := n.get(name); v != nil && v.text != "" {
				p.images = append(p.images, imageEntry{v.text, v.pos})
			}
		}
	}
}

// origin is what kustomize notes of an object.
type origin struct {
	Path         string `yaml:"path"`
	ConfiguredIn string `yaml:"configuredIn"`
	ConfiguredBy struct {
		Kind string `yaml:"kind"`
	} `yaml:"configuredBy"`
}

// place gives an object and its fields their places.
func (p *places) place(n *node, text string) {
	var o origin
	_ = yaml.Unmarshal([]byte(text), &o) // none: the kustomization is the place
	base := p.base(n, o)
	pos := firstPos(p.b.root)
	if base != nil {
		pos = base.pos
	}
	var patches []*node
	for _, d := range p.patches {
		if (d.kind == "" || d.kind == n.str("kind")) && (d.name == "" || strings.Contains(n.str("metadata", "name"), d.name)) {
			patches = append(patches, d.node)
		}
	}
	p.node(n, "", base, patches, pos)
	n.pos = pos
}

func firstPos(k *kustomization) token.Pos {
	if k.root != nil {
		return k.root.pos
	}
	return token.NoPos
}

// base finds the document that an object began as.
func (p *places) base(n *node, o origin) *node {
	if o.Path == "" {
		return p.generator(n, o)
	}
	var best *node
	most := -1
	for _, doc := range p.docs[path.Join(p.b.root.dir, o.Path)] {
		if like := likeness(doc, n); like >= 0 {
			if !p.used[doc] {
				like += 1 << 10 // an object has a document of its own
			}
			if like > most {
				best, most = doc, like
			}
		}
	}
	if best != nil {
		p.used[best] = true
	}
	return best
}

// likeness is how likely an object began as a document: the more the greater,
// negative where it did not. Kustomize may have given it a prefix, a suffix and
// a namespace, and a patch any name. The name counts before the namespace.
func likeness(doc, n *node) int {
	if doc.str("kind") != n.str("kind") || doc.str("apiVersion") != n.str("apiVersion") {
		return -1
	}
	name, was := n.str("metadata", "name"), doc.str("metadata", "name")
	like := 0
	switch {
	case name == was:
		like = 1 << 14
	case was != "" && strings.Contains(name, was):
		like = 1<<12 + 2*len(was)
	}
	if doc.str("metadata", "namespace") == n.str("metadata", "namespace") {
		like++
	}
	return like
}

// generator finds the entry of a kustomization that made an object.
func (p *places) generator(n *node, o origin) *node {
	list := map[string]string{"ConfigMapGenerator": "configMapGenerator", "SecretGenerator": "secretGenerator"}[o.ConfiguredBy.Kind]
	in := path.Join(p.b.root.dir, o.ConfiguredIn)
	name := n.str("metadata", "name")
	var best *node
	for _, k := range p.b.all {
		if k.file.Path != in && path.Dir(in) != k.dir {
			continue
		}
		for _, g := range k.root.list(list) {
			was := g.str("name")
			if strings.Contains(name, was) && (best == nil || len(was) > len(best.str("name"))) {
				best = g
			}
		}
	}
	if best == nil {
		return nil
	}
	// The entry is no manifest: only its name is a field of the object.
	out := &node{kind: mapNode, pos: best.pos}
	if f := best.entry("name"); f != nil {
		out.fields = []field{{"metadata", f.pos, &node{kind: mapNode, pos: f.pos, fields: []field{*f}}}}
	}
	return out
}

// node gives a value and what is below its place. from is the place of what it
// is in.
func (p *places) node(n *node, key string, base *node, patches []*node, from token.Pos) {
	n.pos = p.pos(n, key, base, patches, from)
	for i := range n.fields {
		f := &n.fields[i]
		b := base.entry(f.key)
		var sub []*node
		f.pos = n.pos
		for _, patch := range patches {
			if e := patch.entry(f.key); e != nil {
				sub = append(sub, e.val)
				f.pos = e.pos
			}
		}
		var val *node
		if b != nil {
			val, f.pos = b.val, b.pos
		}
		p.node(f.val, f.key, val, sub, f.pos)
		f.pos = keyOf(f, b, patches)
	}
	for i, item := range n.items {
		var sub []*node
		for _, patch := range patches {
			if m := p.item(n, patch, i, item); m != nil {
				sub = append(sub, m)
			}
		}
		p.node(item, key, p.item(n, base, i, item), sub, n.pos)
	}
}

// keyOf is the place of the label of a field: beside its value.
func keyOf(f, base *field, patches []*node) token.Pos {
	near := func(e *field) bool {
		return e != nil && (e.val.pos == f.val.pos || f.val.kind == mapNode || f.val.kind == listNode)
	}
	if near(base) {
		return base.pos
	}
	for _, patch := range patches {
		if e := patch.entry(f.key); near(e) {
			return e.pos
		}
	}
	return f.val.pos
}

// pos is where a value comes from.
func (p *places) pos(n *node, key string, base *node, patches []*node, from token.Pos) token.Pos {
	scalar := n.kind != mapNode && n.kind != listNode
	if base != nil && (base.text == n.text || !scalar) {
		return base.pos
	}
	for i := len(patches) - 1; i >= 0; i-- {
		if patches[i].text == n.text || !scalar {
			return patches[i].pos
		}
	}
	if scalar {
		if pos, ok := p.values[key+"\x00"+n.text]; ok {
			return pos
		}
		if key == "image" {
			for _, e := range p.images {
				if strings.HasSuffix(n.text, e.text) || strings.HasPrefix(n.text, e.text) {
					return e.pos
				}
			}
		}
	}
	switch {
	case base != nil:
		return base.pos
	case len(patches) > 0:
		return patches[len(patches)-1].pos
	}
	return from
}

// item finds the counterpart of a list item: by its name, else by its index.
func (p *places) item(list, other *node, i int, item *node) *node {
	if other == nil || other.kind != listNode {
		return nil
	}
	for _, key := range []string{"name", "containerPort", "mountPath", "port", "key", "host"} {
		v := item.get(key)
		if v == nil {
			continue
		}
		for _, o := range other.items {
			if w := o.get(key); w != nil && w.text == v.text {
				return o
			}
		}
		if key == "name" {
			return nil
		}
		break
	}
	if len(other.items) == len(list.items) {
		return other.items[i]
	}
	for _, o := range other.items {
		if o.kind == item.kind && o.text == item.text && item.kind == stringNode {
			return o
		}
	}
	return nil
}
