package render

import (
	"slices"
	"strings"
	"text/template/parse"
)

// valueRef is a value that a line of a template prints. The path is that from the
// values of the release; "*" stands for each item of a list or map.
type valueRef struct {
	line int
	path []string
}

// refs reads which values the lines of a template print, as far as the text of the
// template says it: .Values.a.b, $.Values.a, and what is below the dot in "with"
// and "range". The values of a subchart are below its name.
type refs struct {
	feeds lineFeeds
	below []string // where the chart's values are among those of the release
	found []valueRef
}

// scope is what "." and the variables stand for.
type scope struct {
	root bool     // "." has .Values
	dot  []string // nil: not known, where it is not the root
	vars map[string][]string
}

func (s scope) with(name string, path []string) scope {
	vars := make(map[string][]string, len(s.vars)+1)
	for k, v := range s.vars {
		vars[k] = v
	}
	vars[name] = path
	s.vars = vars
	return s
}

// readRefs returns the values that a template prints, in the order of lines, and
// the last line of each template that it defines.
func readRefs(name string, below []string, data string) ([]valueRef, map[string]int) {
	t := parse.New(name)
	t.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := t.Parse(data, "", "", trees); err != nil {
		return nil, nil
	}
	r, ends := &refs{feeds: feedsOf(data), below: below}, map[string]int{}
	for defined, tree := range trees {
		if tree.Root == nil || len(tree.Root.Nodes) == 0 {
			continue
		}
		r.list(tree.Root, scope{root: true})
		if defined != name {
			ends[defined] = r.line(tree.Root.Nodes[len(tree.Root.Nodes)-1])
		}
	}
	slices.SortStableFunc(r.found, func(a, b valueRef) int { return a.line - b.line })
	return r.found, ends
}

// lineFeeds are the places of the line feeds of a text.
type lineFeeds []int

func feedsOf(data string) (out lineFeeds) {
	for i := range len(data) {
		if data[i] == '\n' {
			out = append(out, i)
		}
	}
	return out
}

// line is the number of the line, from 1, of a place in the text.
func (f lineFeeds) line(at int) int {
	i, _ := slices.BinarySearch(f, at)
	return 1 + i
}

// line is the one in which a node begins, and text ends.
func (r *refs) line(n parse.Node) int {
	at := int(n.Position())
	if text, ok := n.(*parse.TextNode); ok {
		at += len(strings.TrimRight(string(text.Text), "\n"))
	}
	return r.feeds.line(at)
}

func (r *refs) list(l *parse.ListNode, s scope) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			r.prints(n.Pipe, s)
			for _, v := range n.Pipe.Decl {
				s = s.with(v.Ident[0], r.path(n.Pipe, s))
			}
		case *parse.IfNode:
			r.list(n.List, s)
			r.list(n.ElseList, s)
		case *parse.WithNode:
			inner := scope{dot: r.path(n.Pipe, s), vars: s.vars}
			for _, v := range n.Pipe.Decl {
				inner = inner.with(v.Ident[0], inner.dot)
			}
			r.list(n.List, inner)
			r.list(n.ElseList, s)
		case *parse.RangeNode:
			inner := scope{vars: s.vars}
			if path := r.path(n.Pipe, s); path != nil {
				inner.dot = append(slices.Clone(path), "*")
			}
			if d := n.Pipe.Decl; len(d) > 0 { // the last is the item, the first of two its key
				inner = inner.with(d[len(d)-1].Ident[0], inner.dot)
			}
			r.list(n.List, inner)
			r.list(n.ElseList, s)
		}
	}
}

// path is the value that a pipeline begins with; nil where it is another's.
func (r *refs) path(p *parse.PipeNode, s scope) []string {
	if p == nil || len(p.Cmds) == 0 || len(p.Cmds[0].Args) != 1 {
		return nil
	}
	return r.of(p.Cmds[0].Args[0], s)
}

// of is the value that an operand names.
func (r *refs) of(n parse.Node, s scope) []string {
	switch n := n.(type) {
	case *parse.DotNode:
		return s.dot
	case *parse.FieldNode:
		if s.root {
			return r.values(n.Ident)
		}
		if s.dot != nil {
			return append(slices.Clone(s.dot), n.Ident...)
		}
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			return r.values(n.Ident[1:])
		}
		if at := s.vars[n.Ident[0]]; at != nil {
			return append(slices.Clone(at), n.Ident[1:]...)
		}
	case *parse.PipeNode:
		return r.path(n, s)
	}
	return nil
}

// values is the path of a field of the root: only .Values.x is one of a value.
func (r *refs) values(ident []string) []string {
	if len(ident) < 2 || ident[0] != "Values" {
		return nil
	}
	if ident[1] == "global" {
		return ident[1:]
	}
	return append(slices.Clone(r.below), ident[1:]...)
}

// prints notes all values that a pipeline is made of.
func (r *refs) prints(p *parse.PipeNode, s scope) {
	for _, cmd := range p.Cmds {
		for _, arg := range cmd.Args {
			if path := r.of(arg, s); len(path) > 0 {
				r.found = append(r.found, valueRef{r.line(arg), path})
			}
			if inner, ok := arg.(*parse.PipeNode); ok {
				r.prints(inner, s)
			}
		}
	}
}
