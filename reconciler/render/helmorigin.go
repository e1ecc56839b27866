package render

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/token"
)

// origins say which value of a release a field has been made of. What a template
// prints as it is has its place where the value is written: in the release, in a
// file of values or among the defaults of the chart. All else stays at the line of
// the template.
type origins struct {
	h         *helm
	templates []chartTemplate
	ends      map[string]linePlace // of what "define" defines, the last line
}

// chartTemplate is one of a chart or of its subcharts, with the values that it prints,
// in the order of lines.
type chartTemplate struct {
	file  *token.File
	data  string   // "" of one in an archive
	lines []string // of the data
	begin []int    // where each begins
	refs  []valueRef
	// nodes are what each means: of those who set it, who wins first.
	nodes [][][]*node
}

// nearRefs is how many lines a reference may be before the line feed that what it
// has printed ends with: "{{- end }}" cuts those between off.
const nearRefs = 8

// maxLooked bounds how many references one field is held against, maxAmong how many
// values of one ("*"), and maxMeantBy how many values the references of a template
// may mean: a chart that nobody has written by hand must not cost more than it
// renders.
const maxLooked, maxAmong, maxMeantBy = 64, 500, 100_000

func newOrigins(h *helm) *origins {
	o := &origins{h: h, ends: map[string]linePlace{}}
	for i, name := range templateNames(h.chart) {
		src := h.source(name)
		t := chartTemplate{}
		if !src.packed {
			t.data = string(h.contents[src.file])
			t.lines = strings.Split(t.data, "\n")
		}
		t.file = token.NewFile(src.file, 0, len(t.data)+1)
		t.file.SetLinesForContent([]byte(t.data))
		t.begin = t.file.Lines()
		for name, line := range o.read(&t, name, src) {
			o.ends[name] = linePlace{i, line}
		}
		o.templates = append(o.templates, t)
	}
	return o
}

// of is the value that a node of the output is; nil where it is none as it stands.
// keys is the way to the node from the root of its object.
func (o *origins) of(at linePlace, n *node, keys []string) *node {
	if at.template >= len(o.templates) {
		return nil
	}
	t := &o.templates[at.template]
	after, _ := slices.BinarySearchFunc(t.refs, at.line+1, func(r valueRef, line int) int { return r.line - line })
	for i := after - 1; i >= 0; i-- {
		if t.refs[i].line <= at.line-nearRefs || after-i > maxLooked {
			return nil
		}
		whole := t.refs[i].line == at.line || named(t.refs[i].path, keys)
		for _, values := range t.nodes[i] {
			if found := among(values, n, keys, whole); found != nil {
				return found
			}
		}
	}
	return nil
}

var includes = regexp.MustCompile(`\b(?:include|template)\s+"([^"]+)"`)

// included is where the last line of a template may be that a line includes: its
// line feed is cut off, and that of the line which includes it counts.
func (o *origins) included(at linePlace) (out []linePlace) {
	if t := &o.templates[at.template]; at.line >= 1 && at.line <= len(t.lines) {
		for _, m := range includes.FindAllStringSubmatch(t.lines[at.line-1], -1) {
			if end, ok := o.ends[m[1]]; ok {
				out = append(out, end)
			}
		}
	}
	return out
}

// fits says whether a line of the output begins as one of a template does.
func (o *origins) fits(at linePlace, text string) bool {
	t := &o.templates[at.template]
	if at.line < 1 || at.line > len(t.lines) {
		return false
	}
	head, _, _ := strings.Cut(t.lines[at.line-1], "{{")
	head = strings.TrimSpace(head)
	return head != "" && strings.HasPrefix(strings.TrimSpace(text), head)
}

// named says whether a field has the name of the value that it prints.
func named(value, keys []string) bool {
	return len(keys) > 0 && value[len(value)-1] == keys[len(keys)-1]
}

// among finds what a node was printed from, the value itself or a part of it:
// where toYaml prints a map, the end of the way to a field of the output is the
// way to the value. whole says that the value itself may be meant.
func among(values []*node, n *node, keys []string, whole bool) *node {
	if len(values) > maxAmong {
		return nil
	}
	var found *node
	for _, v := range values {
		for k := 0; k <= len(keys); k++ {
			part := v.descend(keys[len(keys)-k:])
			if part == nil || k == 0 && !whole || !alike(part, n) {
				continue
			}
			if found != nil && found.pos != part.pos {
				return nil // which of them is not to be known
			}
			found = part
			break
		}
	}
	return found
}

// alike says whether a value prints as a node: the same text, a list as long, a
// map with its keys.
func alike(v, n *node) bool {
	switch n.kind {
	case mapNode:
		return v.kind == mapNode && len(n.fields) > 0 && !slices.ContainsFunc(n.fields, func(f field) bool { return v.entry(f.key) == nil })
	case listNode:
		return v.kind == listNode && len(n.items) > 0 && len(v.items) == len(n.items)
	case nullNode:
		return false
	}
	return v.kind != mapNode && v.kind != listNode && v.kind != nullNode && v.text == n.text && n.text != ""
}

// descend follows keys, and numbers of items; nil where there is no such part.
func (n *node) descend(keys []string) *node {
	for _, key := range keys {
		switch {
		case n == nil:
			return nil
		case n.kind == listNode:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(n.items) {
				return nil
			}
			n = n.items[i]
		default:
			n = n.get(key)
		}
	}
	return n
}

// read finds the values that a template prints, and returns where what it defines
// ends.
func (o *origins) read(t *chartTemplate, name string, src source) (ends map[string]int) {
	below := subcharts(name)
	if t.refs, ends = readRefs(name, below, t.data); len(t.refs) == 0 {
		return ends
	}
	roots := slices.Clone(o.h.values)
	if own := o.defaults(src.file, len(below)); own != nil {
		for _, key := range slices.Backward(below) {
			own = &node{kind: mapNode, pos: own.pos, fields: []field{{key, own.pos, own}}}
		}
		roots = append(roots, own)
	}
	left := maxMeantBy
	for _, ref := range t.refs {
		var all [][]*node
		for _, root := range roots {
			if found := root.match(ref.path, &left); len(found) > 0 {
				all = append(all, found)
			}
		}
		t.nodes = append(t.nodes, all)
	}
	return ends
}

// subcharts are the names of the charts that a template is in, below the first:
// web/charts/db/templates/x.yaml.
func subcharts(name string) (out []string) {
	parts := strings.Split(name, "/")
	for i := 1; i+1 < len(parts) && parts[i] == "charts"; i += 2 {
		out = append(out, parts[i+1])
	}
	return out
}

// defaults are the values.yaml beside the templates of a subchart.
func (o *origins) defaults(template string, depth int) *node {
	dir, _, ok := strings.Cut(template, "/templates/")
	if depth == 0 || !ok {
		return nil
	}
	p := path.Join(dir, "values.yaml")
	if docs := readDocs(p, o.h.contents[p]); len(docs) == 1 {
		return docs[0]
	}
	return nil
}

// match is descend where "*" stands for each part, as many as are left.
func (n *node) match(path []string, left *int) (out []*node) {
	switch {
	case n == nil || *left <= 0:
		return nil
	case len(path) == 0:
		*left--
		return []*node{n}
	case path[0] != "*":
		return n.get(path[0]).match(path[1:], left)
	}
	for _, item := range n.items {
		out = append(out, item.match(path[1:], left)...)
	}
	for _, f := range n.fields {
		out = append(out, f.val.match(path[1:], left)...)
	}
	return out
}
