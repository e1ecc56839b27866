package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// field is a field of an object as JSON shows it. The fields of embedded
// structs belong to the struct that embeds them.
type field struct {
	Name string // JSON name
	Type reflect.Type
	// Holder is the struct that declares the field, Go its name there.
	Holder reflect.Type
	Go     string
	// Omitempty is set by the JSON tag.
	Omitempty bool
}

// fieldsOf returns the JSON fields of a struct type in their order.
func fieldsOf(t reflect.Type) []field {
	if t.Kind() != reflect.Struct {
		return nil
	}
	var out []field
	for i := range t.NumField() {
		sf := t.Field(i)
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" || !sf.IsExported() {
			continue
		}
		if name == "" && sf.Anonymous {
			out = append(out, fieldsOf(sf.Type)...)
			continue
		}
		out = append(out, field{
			Name: name, Type: sf.Type, Holder: t, Go: sf.Name,
			Omitempty: strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero"),
		})
	}
	return out
}

// typeKey names a Go type as constraints do: "core/v1.ContainerPort".
func typeKey(t reflect.Type) string {
	p := t.PkgPath()
	for _, prefix := range []string{"k8s.io/api/", "k8s.io/apiextensions-apiserver/pkg/apis/", "k8s.io/kube-aggregator/pkg/apis/", "k8s.io/apimachinery/pkg/apis/", "k8s.io/apimachinery/pkg/", "github.com/writ-os/writ/schema/"} {
		if s, ok := strings.CutPrefix(p, prefix); ok {
			p = s
			break
		}
	}
	return p + "." + t.Name()
}

// docs are the comments of Go sources, by type and field.
type docs struct {
	fields map[string]map[string]string // typeKey-like "path.Type" -> Go field -> comment
	types  map[string]string
	values map[string][]string // string constants, by their named type
}

// readDocs parses the packages that hold the types of the table.
func readDocs(rows []*row) (*docs, error) {
	want := map[string]bool{"k8s.io/apimachinery/pkg/apis/meta/v1": true}
	for _, r := range rows {
		want[r.Type.PkgPath()] = true
	}
	args := []string{"list", "-json=ImportPath,Dir,GoFiles"}
	for p := range want {
		args = append(args, p)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	d := &docs{fields: map[string]map[string]string{}, types: map[string]string{}, values: map[string][]string{}}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for dec.More() {
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
		}
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		for _, f := range p.GoFiles {
			if strings.HasPrefix(f, "zz_") || strings.HasPrefix(f, "generated") || strings.HasPrefix(f, "types_swagger") {
				continue
			}
			if err := d.parse(p.ImportPath, filepath.Join(p.Dir, f)); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

func (d *docs) parse(pkg, file string) error {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, decl := range f.Decls {
		gd, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gd.Specs {
			if vs, ok := spec.(*ast.ValueSpec); ok {
				d.constants(pkg, vs)
			}
			ts, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			doc := ts.Doc
			if doc == nil {
				doc = gd.Doc
			}
			name := pkg + "." + ts.Name.Name
			d.types[name] = doc.Text()
			st, ok := ts.Type.(*ast.StructType)
			if !ok {
				continue
			}
			fields := map[string]string{}
			for _, sf := range st.Fields.List {
				for _, id := range sf.Names {
					fields[id.Name] = sf.Doc.Text()
				}
			}
			d.fields[name] = fields
		}
	}
	return nil
}

// constants notes the string constants of a named type.
func (d *docs) constants(pkg string, vs *ast.ValueSpec) {
	id, ok := vs.Type.(*ast.Ident)
	if !ok {
		return
	}
	for _, v := range vs.Values {
		lit, ok := v.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			continue
		}
		if s, err := strconv.Unquote(lit.Value); err == nil {
			name := pkg + "." + id.Name
			d.values[name] = append(d.values[name], s)
		}
	}
}

// comment returns the whole comment of a field, markers included.
func (d *docs) comment(f field) string {
	return d.fields[f.Holder.PkgPath()+"."+f.Holder.Name()][f.Go]
}

// full returns the comment of a field without markers, on one line.
func (d *docs) full(f field) string { return plain(d.comment(f)) }

// optional says whether the Go source calls the field optional.
func (d *docs) optional(f field) bool { return strings.Contains(d.comment(f), "+optional") }

// plain drops markers ("+optional") and what follows "---", joins the lines of
// paragraphs, and keeps paragraphs apart as upstream's descriptions do.
func plain(comment string) string {
	var paragraphs []string
	open := false
	for _, line := range strings.Split(comment, "\n") {
		line = strings.TrimSpace(line)
		if line == "---" {
			break
		}
		switch {
		case line == "":
			open = false
		case strings.HasPrefix(line, "+"), strings.HasPrefix(line, "TODO"):
		case open:
			paragraphs[len(paragraphs)-1] += " " + line
		default:
			paragraphs = append(paragraphs, line)
			open = true
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// sentence returns the first sentence of a comment.
func sentence(comment string) string {
	s, _, _ := strings.Cut(plain(comment), "\n")
	if i := strings.Index(s, ". "); i >= 0 {
		s = s[:i+1]
	}
	return s
}
