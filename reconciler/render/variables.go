package render

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Annotations that keep the variables out of an object. The second is Flux's.
const (
	annotationSubstitute     = "writ.dev/substitute"
	annotationFluxSubstitute = "kustomize.toolkit.fluxcd.io/substitute"
)

// maxSubstituted bounds what one text may become.
const maxSubstituted = 1 << 20

// substitute puts the variables of the cluster into an object, as Flux does
// after a build: ${name}, ${name:=default} (also written :-), and $${name} for
// a ${name} that stays. Unlike there a name that nobody has set is a finding,
// and a value in quotes stays a string.
func substitute(out *Rendered, n *node) {
	if out.unit == nil || out.unit.opts == nil || out.unit.opts.Variables == nil || keepsVariables(n) {
		return
	}
	s := &substitution{out: out, vars: out.unit.opts.Variables,
		object: n.str("kind") + "/" + n.str("metadata", "name")}
	s.node(n)
}

func keepsVariables(n *node) bool {
	for _, where := range []string{"annotations", "labels"} {
		for _, name := range []string{annotationSubstitute, annotationFluxSubstitute} {
			if v := n.get("metadata", where, name); v != nil && strings.EqualFold(v.text, "disabled") {
				return true
			}
		}
	}
	return false
}

type substitution struct {
	out    *Rendered
	vars   map[string]string
	object string
}

func (s *substitution) node(n *node) {
	switch n.kind {
	case mapNode:
		for i := range n.fields {
			f := &n.fields[i]
			if text, changed := s.text(&node{pos: f.pos, style: plainStyle}, f.key); changed {
				f.key = text
			}
			s.node(f.val)
		}
	case listNode:
		for _, item := range n.items {
			s.node(item)
		}
	case stringNode:
		text, changed := s.text(n, n.text)
		if !changed {
			return
		}
		n.text = text
		if n.style == plainStyle {
			retype(n)
		}
	}
}

// retype reads a text that was written without quotes as YAML would have, had
// the values been there from the start: replicas: ${replicas} is a number.
func retype(n *node) {
	var doc yaml.Node
	if yaml.Unmarshal([]byte(n.text), &doc) != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.ScalarNode || doc.Content[0].Value != n.text {
		return
	}
	switch doc.Content[0].ShortTag() {
	case "!!int", "!!float":
		if jsonNumber.MatchString(n.text) {
			n.kind = numberNode
		}
	case "!!bool":
		n.kind, n.text = boolNode, strings.ToLower(n.text)
	case "!!null":
		n.kind = nullNode
	}
}

// text replaces the variables of one text; n says where it is.
func (s *substitution) text(n *node, text string) (string, bool) {
	at := strings.Index(text, "${")
	if at < 0 {
		return text, false
	}
	var b bytes.Buffer
	rest, offset := text, 0
	for at = strings.Index(rest, "${"); at >= 0; at = strings.Index(rest, "${") {
		if at > 0 && rest[at-1] == '$' { // $${ is a ${ that stays
			b.WriteString(rest[:at-1])
			b.WriteString("${")
			rest, offset = rest[at+2:], offset+at+2
			continue
		}
		b.WriteString(rest[:at])
		end := strings.IndexByte(rest[at:], '}')
		if end < 0 {
			s.find(n, text, offset+at, rest[at:], "has no end: }")
			return text, false
		}
		value, why, hint := s.value(rest[at+2 : at+end])
		if why != "" {
			s.findHint(n, text, offset+at, rest[at:at+end+1], why, hint)
			value = rest[at : at+end+1]
		}
		if b.WriteString(value); b.Len() > maxSubstituted {
			s.find(n, text, offset+at, rest[at:at+end+1], fmt.Sprintf("makes the text longer than %d bytes", maxSubstituted))
			return text, false
		}
		rest, offset = rest[at+end+1:], offset+at+end+1
	}
	b.WriteString(rest)
	return b.String(), true
}

// value is what an expression stands for, or why it stands for nothing.
func (s *substitution) value(expr string) (value, why, hint string) {
	name, fallback, hasFallback := expr, "", false
	if i := strings.Index(expr, ":"); i >= 0 && i+1 < len(expr) && (expr[i+1] == '=' || expr[i+1] == '-') {
		name, fallback, hasFallback = expr[:i], expr[i+2:], true
	}
	if !isVariable(name) {
		return "", "is no variable", "write $${" + expr + "} for a text that stays, or annotate the object with " + annotationSubstitute + ": disabled"
	}
	if v, ok := s.vars[name]; ok && (v != "" || !hasFallback) {
		return v, "", ""
	}
	if hasFallback {
		return fallback, "", ""
	}
	hint = "set it in the Repository's variables, or write ${" + name + ":=default}"
	if near := nearest(name, s.vars); near != "" {
		hint = fmt.Sprintf("did you mean ${%s}? Or %s", near, hint)
	}
	return "", "is not set for this cluster", hint
}

func (s *substitution) find(n *node, text string, offset int, what, why string) {
	s.findHint(n, text, offset, what, why, "")
}

func (s *substitution) findHint(n *node, text string, offset int, what, why, hint string) {
	p := n.pos
	f := v1alpha1.Finding{File: p.Filename(), Line: p.Line(), Column: p.Column(), Object: s.object, Rule: "Variable",
		Message: "the variable " + quoteShort(what) + " " + why, Hint: hint}
	switch before := text[:offset]; n.style {
	case plainStyle:
		f.Column += offset
	case quotedStyle:
		if !strings.Contains(before, "\n") {
			f.Column += offset + 1
		}
	case blockStyle:
		f.Line += 1 + strings.Count(before, "\n")
		f.Column = 1
	}
	s.out.find(f)
}

func quoteShort(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 60 {
		s = s[:60] + "..."
	}
	return s
}

func isVariable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// nearest is the known name that is most like another; "" when none is.
func nearest[V any](name string, known map[string]V) string {
	best, out := 1+len(name)/3, ""
	names := make([]string, 0, len(known))
	for k := range known {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d <= best {
			best, out = d-1, k
		}
	}
	return out
}
