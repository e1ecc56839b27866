package secret

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxDepth is how deep values may be nested, as in a manifest.
const maxDepth = 64

var (
	errSyntax = errors.New("syntax")
	errDeep   = errors.New("values are nested too deep")
)

// parseYAML reads all documents of a file. Comments become entries as SOPS
// makes them: a file may say by comment what is encrypted. errSyntax means a
// file that is no YAML, of which the renderer speaks.
func (f *file) parseYAML() error {
	f.yaml = yamlLines(f.data)
	dec := yaml.NewDecoder(bytes.NewReader(f.data))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errSyntax
		}
		if len(doc.Content) != 1 {
			continue
		}
		root, err := f.yamlNode(doc.Content[0], false, 0)
		if err != nil {
			return err
		}
		if root.kind == mapKind {
			root.entries = append(comments(nil, doc.HeadComment, doc.LineComment), root.entries...)
		}
		f.docs = append(f.docs, root)
	}
}

// comments adds one entry for each line of the comments.
func comments(to []entry, texts ...string) []entry {
	for _, t := range texts {
		for line := range strings.SplitSeq(t, "\n") {
			if line != "" {
				to = append(to, entry{comment: true, text: line[1:]})
			}
		}
	}
	return to
}

// yamlNode converts a node. handled says that the entry above has taken the
// comments of the node itself.
func (f *file) yamlNode(y *yaml.Node, handled bool, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	start := f.offset(y.Line, y.Column)
	n := &node{start: start, end: start}
	n.line, n.column = f.place(start)
	var err error
	switch y.Kind {
	case yaml.MappingNode:
		n.kind = mapKind
		err = f.yamlMap(n, y, handled, depth)
	case yaml.SequenceNode:
		n.kind = listKind
		err = f.yamlList(n, y, handled, depth)
	case yaml.AliasNode:
		n.bad = "SOPS files have no aliases; write the value itself"
	default:
		yamlScalar(n, y)
	}
	return n, err
}

func (f *file) yamlMap(n *node, y *yaml.Node, handled bool, depth int) error {
	if !handled {
		n.entries = comments(n.entries, y.HeadComment, y.LineComment)
	}
	for i := 0; i+1 < len(y.Content); i += 2 {
		k, v := y.Content[i], y.Content[i+1]
		n.entries = comments(n.entries, k.HeadComment, k.LineComment)
		scalar := v.Kind == yaml.ScalarNode || v.Kind == yaml.AliasNode
		if scalar {
			n.entries = comments(n.entries, v.HeadComment, v.LineComment)
		}
		val, err := f.yamlNode(v, scalar, depth+1)
		if err != nil {
			return err
		}
		n.entries = append(n.entries, entry{key: k.Value, keyStart: f.offset(k.Line, k.Column), val: val,
			keyBad: k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" && k.Tag != "!!merge"})
		if scalar {
			n.entries = comments(n.entries, v.FootComment)
		}
		n.entries = comments(n.entries, k.FootComment)
	}
	if !handled {
		n.entries = comments(n.entries, y.FootComment)
	}
	return nil
}

func (f *file) yamlList(n *node, y *yaml.Node, handled bool, depth int) error {
	if !handled {
		n.entries = comments(n.entries, y.HeadComment, y.LineComment)
	}
	for _, item := range y.Content {
		n.entries = comments(n.entries, item.HeadComment, item.LineComment)
		val, err := f.yamlNode(item, true, depth+1)
		if err != nil {
			return err
		}
		n.entries = append(n.entries, entry{val: val})
		n.entries = comments(n.entries, item.FootComment)
	}
	if !handled {
		n.entries = comments(n.entries, y.FootComment)
	}
	return nil
}

// yamlScalar reads a scalar as SOPS does.
func yamlScalar(n *node, y *yaml.Node) {
	n.text = y.Value
	var v any
	if err := y.Decode(&v); err != nil {
		n.bad = "the value cannot be read"
		return
	}
	switch v := v.(type) {
	case nil:
		n.null = true
	case string:
		n.isStr, n.text, n.mac = true, v, []byte(v)
	case int:
		n.mac = strconv.AppendInt(nil, int64(v), 10)
	case float64:
		n.mac = strconv.AppendFloat(nil, v, 'f', -1, 64)
	case bool:
		n.mac = macBool(v)
	case time.Time:
		n.mac, _ = v.MarshalText()
	default:
		n.bad = "SOPS knows no value of this type; put it in quotes"
	}
}

// offset turns a line and a column of YAML, counted in characters, into an
// offset.
func (f *file) offset(line, column int) int {
	if line < 1 || line > len(f.yaml) {
		return len(f.data)
	}
	at := f.yaml[line-1]
	for ; column > 1 && at < len(f.data) && f.data[at] != '\n'; column-- {
		_, size := utf8.DecodeRune(f.data[at:])
		at += size
	}
	return at
}

// yamlLines returns where the lines of YAML begin: it breaks them after more
// characters than editors do.
func yamlLines(data []byte) []int {
	lines := []int{0}
	for i := 0; i < len(data); {
		size := 1
		switch c := data[i]; {
		case c == '\n':
			lines = append(lines, i+1)
		case c == '\r' && (i+1 == len(data) || data[i+1] != '\n'):
			lines = append(lines, i+1)
		case c >= utf8.RuneSelf:
			var r rune
			r, size = utf8.DecodeRune(data[i:])
			if r == 0x85 || r == 0x2028 || r == 0x2029 {
				lines = append(lines, i+size)
			}
		}
		i += size
	}
	return lines
}
