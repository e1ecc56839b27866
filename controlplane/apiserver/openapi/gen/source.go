package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// typeDoc is what the source of a type says that reflection does not.
type typeDoc struct {
	comment comment
	fields  map[string]comment
	// values are the constants of a type that is marked as an enumeration.
	values []enumValue
}

type enumValue struct{ value, doc string }

// comment is a doc comment: its text, and its markers (+optional, +listType=map).
type comment struct {
	text    string
	markers map[string][]string
}

func (c comment) marker(name string) string {
	if v := c.markers[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (c comment) has(name string) bool { _, ok := c.markers[name]; return ok }

// sources reads the source of packages once each.
type sources struct {
	dirs map[string]string
	pkgs map[string]map[string]*typeDoc
}

// findSources asks the go command where packages are.
func findSources(pkgs []string) (*sources, error) {
	args := append([]string{"list", "-f", "{{.ImportPath}} {{.Dir}}"}, pkgs...)
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	s := &sources{dirs: map[string]string{}, pkgs: map[string]map[string]*typeDoc{}}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		path, dir, _ := strings.Cut(line, " ")
		s.dirs[path] = dir
	}
	return s, nil
}

// find returns what the source says of a type.
func (s *sources) find(pkg, name string) (*typeDoc, error) {
	types, ok := s.pkgs[pkg]
	if !ok {
		dir, known := s.dirs[pkg]
		if !known {
			more, err := findSources([]string{pkg})
			if err != nil {
				return nil, err
			}
			dir = more.dirs[pkg]
			s.dirs[pkg] = dir
		}
		var err error
		if types, err = parsePackage(dir); err != nil {
			return nil, fmt.Errorf("parse %s: %w", pkg, err)
		}
		s.pkgs[pkg] = types
	}
	if d := types[name]; d != nil {
		return d, nil
	}
	return &typeDoc{}, nil
}

func parsePackage(dir string) (map[string]*typeDoc, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	types := map[string]*typeDoc{}
	var consts []*ast.GenDecl
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			g, ok := decl.(*ast.GenDecl)
			switch {
			case ok && g.Tok == token.TYPE:
				addTypes(types, g)
			case ok && g.Tok == token.CONST:
				consts = append(consts, g)
			}
		}
	}
	for _, g := range consts {
		addValues(types, g)
	}
	return types, nil
}

func addTypes(types map[string]*typeDoc, g *ast.GenDecl) {
	for _, spec := range g.Specs {
		ts := spec.(*ast.TypeSpec)
		doc := ts.Doc
		if doc == nil {
			doc = g.Doc
		}
		d := &typeDoc{comment: parseComment(doc), fields: map[string]comment{}}
		if st, ok := ts.Type.(*ast.StructType); ok {
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					d.fields[n.Name] = parseComment(f.Doc)
				}
			}
		}
		types[ts.Name.Name] = d
	}
}

// addValues gives the constants of enumerations to their types.
func addValues(types map[string]*typeDoc, g *ast.GenDecl) {
	for _, spec := range g.Specs {
		vs := spec.(*ast.ValueSpec)
		id, ok := vs.Type.(*ast.Ident)
		if !ok || types[id.Name] == nil || !types[id.Name].comment.has("enum") || len(vs.Values) != 1 {
			continue
		}
		lit, ok := vs.Values[0].(*ast.BasicLit)
		if !ok {
			continue
		}
		value, err := strconv.Unquote(lit.Value)
		if err != nil {
			continue
		}
		d := types[id.Name]
		d.values = append(d.values, enumValue{value, parseComment(vs.Doc).text})
	}
}

// parseComment splits a doc comment into text and markers. Lines of a paragraph
// are joined; lists and examples keep their lines; what follows "---" is for
// the people who write the type.
func parseComment(g *ast.CommentGroup) comment {
	c := comment{markers: map[string][]string{}}
	if g == nil {
		return c
	}
	var b strings.Builder
	for _, line := range strings.Split(g.Text(), "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "---"):
			c.text = strings.TrimSpace(b.String())
			return c
		case strings.HasPrefix(trimmed, "+"):
			k, v, _ := strings.Cut(trimmed[1:], "=")
			c.markers[k] = append(c.markers[k], v)
		case strings.HasPrefix(trimmed, "TODO"), strings.HasPrefix(trimmed, "FIXME"):
		case trimmed == "":
			newParagraph(&b)
		case strings.HasPrefix(line, " "), strings.HasPrefix(line, "\t"), strings.HasPrefix(trimmed, "- "), strings.HasPrefix(trimmed, "* "):
			if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
				b.WriteByte('\n')
			}
			b.WriteString(strings.TrimRight(line, " \t"))
			b.WriteByte('\n')
		default:
			if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
				b.WriteByte(' ')
			}
			b.WriteString(trimmed)
		}
	}
	c.text = strings.TrimSpace(b.String())
	return c
}

func newParagraph(b *strings.Builder) {
	text := b.String()
	switch {
	case text == "" || strings.HasSuffix(text, "\n\n"):
	case strings.HasSuffix(text, "\n"):
		b.WriteByte('\n')
	default:
		b.WriteString("\n\n")
	}
}
