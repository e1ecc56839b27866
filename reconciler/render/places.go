package render

import (
	"bytes"
	"path"
	"strconv"
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
	values  map[string][]setting // by key and text
	images  []imageEntry
	texts   map[string][]byte // of all files

	object *node    // whose fields are being given their places
	path   []string // of the field

	findings []v1alpha1.Finding // of the manifests, which are YAML at least
}

// patchDoc is a strategic patch and the objects that it means.
type patchDoc struct {
	kind, name string
	node       *node
}

// imageEntry says what an image becomes that has a name.
type imageEntry struct{ name, text *node }

func newPlaces(b *build, contents map[string][]byte) *places {
	p := &places{b: b, docs: map[string][]*node{}, used: map[*node]bool{}, values: map[string][]setting{}, texts: contents}
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
			at := strings.Split(strings.TrimPrefix(op.str("path"), "/"), "/")
			for i := range at {
				at[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(at[i])
			}
			p.value(at[len(at)-1], v, setting{kind: kind, name: name, at: at})
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
	p.object, p.path = n, p.path[:0]
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
		p.path = append(p.path, f.key)
		p.node(f.val, f.key, val, sub, f.pos)
		p.path = p.path[:len(p.path)-1]
		f.pos = keyOf(f, b, patches)
	}
	for i, item := range n.items {
		var sub []*node
		for _, patch := range patches {
			if m := p.item(n, patch, i, item); m != nil {
				sub = append(sub, m)
			}
		}
		p.path = append(p.path, strconv.Itoa(i))
		p.node(item, key, p.item(n, base, i, item), sub, n.pos)
		p.path = p.path[:len(p.path)-1]
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
		if pos, ok := p.setTo(key, n.text); ok {
			return pos
		}
		if pos, ok := p.image(key, n.text, base, patches); ok {
			return pos
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
