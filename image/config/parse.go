package config

import (
	"fmt"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/errors"
	cueyaml "cuelang.org/go/encoding/yaml"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Parse reads a node.yaml. file is what people call it, for the findings. With
// findings, which come in the order of the file, the Node is not to be used.
func Parse(file string, data []byte) (Node, []v1alpha1.Finding) {
	fail := func(rule, format string, a ...any) (Node, []v1alpha1.Finding) {
		return Node{}, []v1alpha1.Finding{{File: file, Rule: rule, Message: fmt.Sprintf(format, a...)}}
	}
	switch {
	case len(data) > MaxSize:
		return fail("TooLarge", "is %d bytes, at most %d are read", len(data), MaxSize)
	case strings.HasPrefix(string(data), "#cloud-config"), strings.HasPrefix(string(data), "#!"):
		return fail("Syntax", "is written for another system: this one reads a node.yaml, which begins with \"role: server\" or \"role: agent\"")
	}
	f, err := extract(file, data)
	if err != nil {
		return Node{}, syntax(file, err)
	}
	expr, ok := document(f)
	if !ok {
		return fail("Syntax", "must be one object, such as \"role: server\"")
	}
	w := newWalker()
	w.file = file
	w.object(w.root, expr, place{pos: expr.Pos()})
	var n Node
	if len(w.out) == 0 {
		if err := w.ctx.BuildExpr(expr).Decode(&n); err != nil {
			return fail("Invalid", "%v", err)
		}
		relate(w, n, expr)
	}
	return n, w.sorted()
}

// extract reads YAML. The decoder panics where it and YAML disagree on what ends
// a line, and a file that somebody wrote must not end the process.
func extract(file string, data []byte) (f *ast.File, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("its lines cannot be told apart: end each with a line feed, and nothing else")
		}
	}()
	return cueyaml.Extract(file, data)
}

// document is the one object of a file.
func document(f *ast.File) (*ast.StructLit, bool) {
	if len(f.Decls) == 1 {
		if e, ok := f.Decls[0].(*ast.EmbedDecl); ok {
			s, ok := e.Expr.(*ast.StructLit)
			return s, ok
		}
	}
	s := &ast.StructLit{}
	for _, d := range f.Decls {
		switch d.(type) {
		case *ast.Field:
			s.Elts = append(s.Elts, d)
		case *ast.CommentGroup:
		default:
			return nil, false
		}
	}
	return s, len(s.Elts) > 0
}

func syntax(file string, err error) []v1alpha1.Finding {
	f := v1alpha1.Finding{File: file, Rule: "Syntax", Message: "not YAML: " + err.Error()}
	if all := errors.Errors(err); len(all) > 0 && all[0].Position().IsValid() {
		p := all[0].Position()
		format, a := all[0].Msg()
		f.Line, f.Column, f.Message = p.Line(), p.Column(), "not YAML: "+fmt.Sprintf(format, a...)
	}
	return []v1alpha1.Finding{f}
}

// Say is a finding as a line: file:line:col: message (hint).
func Say(f v1alpha1.Finding) string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
		}
		b.WriteString(": ")
	}
	b.WriteString(f.Message)
	if f.Hint != "" {
		b.WriteString(" (" + f.Hint + ")")
	}
	return b.String()
}
