package render

import (
	"slices"
	"strings"

	"cuelang.org/go/cue/token"
)

// setting is a value that a kustomization sets, and in which objects and where.
type setting struct {
	pos        token.Pos
	kind, name string   // "" is any; the name may have got a prefix and a suffix
	at         []string // the path; "-" is any item. nil: anywhere below
	below      []string // one of these maps; nil: anywhere
}

// value notes where the scalars of a value are that is set.
func (p *places) value(key string, v *node, s setting) {
	down := func(step string) setting {
		out := s
		if s.at != nil {
			out.at = append(slices.Clone(s.at), step)
		}
		return out
	}
	switch v.kind {
	case mapNode:
		for _, f := range v.fields {
			p.value(f.key, f.val, down(f.key))
		}
	case listNode:
		for _, item := range v.items {
			p.value(key, item, down("-"))
		}
	default:
		s.pos = v.pos
		p.values[key+"\x00"+v.text] = append(p.values[key+"\x00"+v.text], s)
	}
}

// valuesOf notes what the fields of a kustomization set in objects.
func (p *places) valuesOf(k *kustomization) {
	labels := setting{below: []string{"labels", "matchLabels", "selector"}}
	annotations := setting{below: []string{"annotations"}}
	if n := k.root.get("namespace"); n != nil {
		p.value("namespace", n, setting{})
	}
	for _, n := range k.root.list("replicas") {
		if c := n.get("count"); c != nil {
			p.value("replicas", c, setting{name: n.str("name")})
		}
	}
	set := func(v *node, s setting) {
		if v != nil && v.kind == mapNode {
			p.value("", v, s)
		}
	}
	set(k.root.get("commonLabels"), labels)
	set(k.root.get("commonAnnotations"), annotations)
	for _, n := range k.root.list("labels") {
		set(n.get("pairs"), labels)
	}
	for _, generator := range []string{"configMapGenerator", "secretGenerator"} {
		for _, g := range k.root.list(generator) {
			of := labels
			of.name = g.str("name")
			set(g.get("options", "labels"), of)
			of.below = annotations.below
			set(g.get("options", "annotations"), of)
		}
	}
	set(k.root.get("generatorOptions", "labels"), labels)
	set(k.root.get("generatorOptions", "annotations"), annotations)
	for _, n := range k.root.list("images") {
		for _, field := range []string{"digest", "newTag", "newName"} {
			if v := n.get(field); v != nil && v.text != "" {
				p.images = append(p.images, imageEntry{n.get("name"), v})
			}
		}
	}
}

// setTo is where a kustomization sets the field that is being placed. Where none
// of the settings of that value means it, the first is taken: a transformer may
// have its own list of fields.
func (p *places) setTo(key, text string) (token.Pos, bool) {
	all := p.values[key+"\x00"+text]
	for i := range all {
		if p.means(&all[i]) {
			return all[i].pos, true
		}
	}
	if len(all) == 0 {
		return token.NoPos, false
	}
	return all[0].pos, true
}

// means says whether a setting is of the field that is being placed.
func (p *places) means(s *setting) bool {
	if s.kind != "" && s.kind != p.object.str("kind") || s.name != "" && !strings.Contains(p.object.str("metadata", "name"), s.name) {
		return false
	}
	if s.below != nil && !slices.ContainsFunc(p.path, func(step string) bool { return slices.Contains(s.below, step) }) {
		return false
	}
	if s.at == nil {
		return true
	}
	return slices.EqualFunc(s.at, p.path, func(want, step string) bool { return want == step || want == "-" })
}

// image is where a kustomization sets what an image is now: by the name that it
// has in the file or in a patch.
func (p *places) image(key, text string, base *node, patches []*node) (token.Pos, bool) {
	if key != "image" {
		return token.NoPos, false
	}
	was := base
	if len(patches) > 0 {
		was = patches[len(patches)-1]
	}
	for _, e := range p.images {
		if was != nil && e.name != nil && imageName(was.text) == e.name.text && (strings.HasSuffix(text, e.text.text) || strings.HasPrefix(text, e.text.text)) {
			return e.text.pos, true
		}
	}
	return token.NoPos, false
}

// imageName is an image without its tag and digest.
func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	return image
}
