package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"cuelang.org/go/cue/token"
	"go.yaml.in/yaml/v3"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// renderYAML reads the manifests of a YAML file.
func renderYAML(out *Rendered, file string, data []byte) {
	readYAML(out, file, data, func(n *node) { identify(out, n) })
}

// readYAML reads the documents of a YAML file. A syntax error ends the file,
// since nobody can say where the next document begins in earnest.
func readYAML(out *Rendered, file string, data []byte, each func(*node)) {
	if n := bytes.Count(data, []byte(",")) + bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte(": ")); n > maxTokens {
		out.find(v1alpha1.Finding{File: file, Rule: "TooLarge",
			Message: fmt.Sprintf("has more than %d lines and values", maxTokens), Hint: "split the file"})
		return
	}
	y := newYAMLFile(out, file, data)
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			out.find(y.syntax(err))
			return
		}
		if len(doc.Content) == 0 || emptyYAML(doc.Content[0]) {
			continue
		}
		before := len(out.Findings)
		if n := y.node(doc.Content[0], 0); n != nil && len(out.Findings) == before {
			each(n)
		}
	}
}

// emptyYAML says whether a document holds nothing but comments.
func emptyYAML(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// yamlFile turns the nodes of one file into ours.
type yamlFile struct {
	out     *Rendered
	name    string
	tok     *token.File
	data    []byte
	lines   []int // offsets of the lines
	ascii   bool  // all characters are one byte long
	aliased int   // nodes made by aliases so far
	copied  int   // bytes of their texts
	inAlias int
	gaveUp  bool
}

func newYAMLFile(out *Rendered, name string, data []byte) *yamlFile {
	y := &yamlFile{out: out, name: name, data: data, tok: token.NewFile(name, 0, len(data)+1)}
	y.tok.SetLinesForContent(data)
	y.lines = y.tok.Lines()
	y.ascii = !bytes.ContainsFunc(data, func(r rune) bool { return r >= utf8.RuneSelf })
	return y
}

// pos turns a line and a column, counted in characters, into a position.
func (y *yamlFile) pos(n *yaml.Node) token.Pos {
	if n.Line < 1 || n.Line > len(y.lines) {
		return y.tok.Pos(len(y.data), token.NoRelPos) // YAML counts lone carriage returns as lines
	}
	at := y.lines[n.Line-1]
	rest := y.data[at:]
	if n.Line < len(y.lines) {
		rest = y.data[at:y.lines[n.Line]]
	}
	return y.tok.Pos(at+byteColumn(rest, n.Column-1, y.ascii), token.NoRelPos)
}

// exactLine is the length up to which the characters of a line are counted. In
// longer ones a place may be off after letters of several bytes; counting
// there would cost the square of the length.
const exactLine = 1 << 14

// byteColumn turns an offset in characters into one in bytes.
func byteColumn(line []byte, chars int, ascii bool) int {
	if ascii || len(line) > exactLine {
		return min(chars, len(line))
	}
	offset := 0
	for ; chars > 0 && offset < len(line); chars-- {
		_, n := utf8.DecodeRune(line[offset:])
		offset += n
	}
	return offset
}

func (y *yamlFile) find(n *yaml.Node, rule, message, hint string) *node {
	p := y.pos(n)
	y.out.find(v1alpha1.Finding{File: y.name, Line: p.Line(), Column: p.Column(), Rule: rule, Message: message, Hint: hint})
	return nil
}

// giveUp reports a bound that the file breaks, once.
func (y *yamlFile) giveUp(n *yaml.Node, rule, message string) *node {
	if !y.gaveUp {
		y.gaveUp = true
		y.find(n, rule, message, "")
	}
	return nil
}

// node converts a YAML node; nil when something is wrong with it.
func (y *yamlFile) node(n *yaml.Node, depth int) *node {
	switch {
	case y.gaveUp:
		return nil
	case depth > maxDepth:
		return y.giveUp(n, "TooDeep", fmt.Sprintf("is nested more than %d levels deep", maxDepth))
	case y.inAlias > 0:
		if y.aliased++; y.aliased > maxAliased {
			return y.giveUp(n, "TooLarge", fmt.Sprintf("the aliases of the file expand to more than %d values", maxAliased))
		}
		if y.copied += len(n.Value); y.copied > maxFileSize {
			return y.giveUp(n, "TooLarge", "the aliases of the file expand to more than "+megabytes(maxFileSize))
		}
	}
	switch n.Kind {
	case yaml.AliasNode:
		y.inAlias++
		defer func() { y.inAlias-- }()
		return y.node(n.Alias, depth+1)
	case yaml.SequenceNode:
		out := &node{kind: listNode, pos: y.pos(n), items: make([]*node, 0, len(n.Content))}
		for _, c := range n.Content {
			if item := y.node(c, depth+1); item != nil {
				out.items = append(out.items, item)
			}
		}
		return out
	case yaml.MappingNode:
		return y.mapping(n, depth)
	}
	return y.scalar(n)
}

// mapping converts a map; its own keys win over those it merges in by "<<".
func (y *yamlFile) mapping(n *yaml.Node, depth int) *node {
	out := &node{kind: mapNode, pos: y.pos(n), fields: make([]field, 0, len(n.Content)/2)}
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Tag == "!!merge" {
			merged = append(merged, v)
			continue
		}
		key, ok := y.key(k)
		if !ok {
			continue
		}
		if first, dup := seen[key]; dup {
			y.find(k, "DuplicateKey", fmt.Sprintf("key %q is already set in line %d", key, first.Line), "remove one of the two")
			continue
		}
		seen[key] = k
		if val := y.node(v, depth+1); val != nil {
			out.fields = append(out.fields, field{key, y.pos(k), val})
		}
	}
	for _, m := range merged {
		y.merge(out, m, seen, depth)
	}
	return out
}

// merge adds what "<<" brings: a map, an alias of one, or a list of them.
func (y *yamlFile) merge(out *node, m *yaml.Node, seen map[string]*yaml.Node, depth int) {
	v := y.node(m, depth+1)
	if v == nil {
		return
	}
	sources := []*node{v}
	if v.kind == listNode {
		sources = v.items
	}
	for _, s := range sources {
		if s.kind != mapNode {
			y.find(m, "Syntax", `"<<" merges maps, and this is none`, "")
			return
		}
		for _, f := range s.fields {
			if seen[f.key] == nil {
				seen[f.key] = m
				out.fields = append(out.fields, f)
			}
		}
	}
}

// key returns a map key as JSON has it.
func (y *yamlFile) key(k *yaml.Node) (string, bool) {
	if k.Kind == yaml.AliasNode {
		k = k.Alias
	}
	if k.Kind != yaml.ScalarNode || k.Tag == "!!null" {
		hint := ""
		if k.Kind == yaml.MappingNode && k.Style&yaml.FlowStyle != 0 { // {{ x }} is a map whose key is a map
			hint = "templates are rendered as part of a chart; if the file is none, put the value in quotes"
		}
		y.find(k, "Syntax", "a key must be a word", hint)
		return "", false
	}
	return k.Value, true
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// scalar converts a value that holds no others.
func (y *yamlFile) scalar(n *yaml.Node) *node {
	out := &node{pos: y.pos(n), text: n.Value, style: styleOf(n.Style)}
	switch n.ShortTag() {
	case "!!str", "!!timestamp", "!!binary":
		out.kind = stringNode
	case "!!null":
		out.kind = nullNode
	case "!!bool":
		out.kind, out.text = boolNode, strings.ToLower(n.Value)
	case "!!int", "!!float":
		out.kind = numberNode
		if !jsonNumber.MatchString(n.Value) && !y.number(n, out) {
			return nil
		}
	default:
		return y.find(n, "Syntax", fmt.Sprintf("the tag %s is not known", n.Tag), "write the value without it")
	}
	return out
}

func styleOf(s yaml.Style) nodeStyle {
	switch {
	case s&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return blockStyle
	case s&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		return quotedStyle
	}
	return plainStyle
}

// number converts the spellings that JSON does not have: 0x1F, 0o17, 1_000.
func (y *yamlFile) number(n *yaml.Node, out *node) bool {
	var v any
	if err := n.Decode(&v); err != nil {
		y.find(n, "Syntax", fmt.Sprintf("%q is no number", n.Value), "")
		return false
	}
	switch v := v.(type) {
	case int:
		out.text = strconv.Itoa(v)
	case int64:
		out.text = strconv.FormatInt(v, 10)
	case uint64:
		out.text = strconv.FormatUint(v, 10)
	case float64:
		out.text = strconv.FormatFloat(v, 'g', -1, 64)
	}
	if !jsonNumber.MatchString(out.text) {
		y.find(n, "Syntax", fmt.Sprintf("%q is no number that a manifest can hold", n.Value), "put it in quotes if it is text")
		return false
	}
	return true
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// syntax turns an error of the YAML parser into a finding.
func (y *yamlFile) syntax(err error) v1alpha1.Finding {
	f := v1alpha1.Finding{File: y.name, Line: 1, Column: 1, Rule: "Syntax", Message: err.Error()}
	m := yamlLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if m == nil {
		return f
	}
	f.Message = m[2]
	if m[1] != "" {
		f.Line, _ = strconv.Atoi(m[1])
	}
	y.improve(&f)
	return f
}

// improve finds the tab that most complaints of the parser are about, and the
// column of the text in the line.
func (y *yamlFile) improve(f *v1alpha1.Finding) {
	for _, line := range []int{f.Line, f.Line + 1, f.Line - 1} {
		if line < 1 || line > len(y.lines) {
			continue
		}
		text := y.line(line)
		indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
		if i := strings.IndexByte(indent, '\t'); i >= 0 {
			f.Line, f.Column = line, i+1
			f.Message, f.Hint = "a tab is used to indent, and YAML allows only spaces there", "replace it by spaces"
			return
		}
	}
	if f.Line <= len(y.lines) {
		text := y.line(f.Line)
		f.Column = 1 + len(text) - len(strings.TrimLeft(text, " "))
	}
}

func (y *yamlFile) line(n int) string {
	rest := y.data[y.lines[n-1]:]
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	return string(rest)
}
