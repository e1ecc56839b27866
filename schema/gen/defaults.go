package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	cueast "cuelang.org/go/cue/ast"
	cueliteral "cuelang.org/go/cue/literal"
	cuetoken "cuelang.org/go/cue/token"
)

// defaulter writes one Go function for each Go type that has defaults or
// holds a type that has.
type defaulter struct {
	m *model
	g *goFile
	// setters are the functions that people wrote: set<Type>.
	setters map[string]bool
	needs   map[reflect.Type]bool
	names   map[reflect.Type]string
	used    map[string]bool
}

// writeDefaults writes the static defaults in Go.
func writeDefaults(dir string, rows []*row, m *model) ([]byte, error) {
	setters, err := readSetters(dir)
	if err != nil {
		return nil, err
	}
	d := &defaulter{m: m, g: newGoFile("defaults"), setters: setters, needs: map[reflect.Type]bool{}, names: map[reflect.Type]string{}, used: map[string]bool{}}
	d.g.importName("github.com/writ-os/writ/schema")
	d.g.printf("// apply calls the function of the object's kind.\nfunc apply(o schema.Object) {\nswitch o := o.(type) {\n")
	for _, r := range rows {
		if d.need(r.Type) {
			d.g.printf("case *%s.%s:\n%s(o)\n", d.g.importName(r.Type.PkgPath()), r.Type.Name(), d.function(r.Type))
		}
	}
	d.g.printf("}\n}\n\n")
	for done := 0; done < len(d.names); {
		types := slices.SortedFunc(maps.Keys(d.names), func(a, b reflect.Type) int { return strings.Compare(d.names[a], d.names[b]) })
		done = len(types)
		if d.closure(types) {
			for _, t := range types {
				d.write(t)
			}
		}
	}
	for _, s := range slices.Sorted(maps.Keys(setters)) {
		if !d.used[s] {
			return nil, fmt.Errorf("defaults: %s is called for no type", s)
		}
	}
	return d.g.bytes()
}

// readSetters finds the functions set<Type> in the hand-written files.
func readSetters(dir string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, name := range files {
		if strings.HasPrefix(filepath.Base(name), "zz_") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return nil, err
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "set") && fn.Name.Name[3] >= 'A' && fn.Name.Name[3] <= 'Z' {
				out[fn.Name.Name] = true
			}
		}
	}
	return out, nil
}

// closure names the functions that those of the types call, and says whether
// there were no new ones.
func (d *defaulter) closure(types []reflect.Type) bool {
	before := len(d.names)
	for _, t := range types {
		if t.Kind() != reflect.Struct {
			continue
		}
		for i := range t.NumField() {
			if e := element(t.Field(i).Type); d.need(e) {
				d.function(e)
			}
		}
	}
	return len(d.names) == before
}

// element returns the struct or named map type that a field holds, through
// pointers and slices.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// typeName is the name that the CUE definition of a type has too.
func (d *defaulter) typeName(t reflect.Type) string {
	if n, ok := d.m.names[t]; ok {
		return n
	}
	return t.Name()
}

func (d *defaulter) function(t reflect.Type) string {
	if d.names[t] == "" {
		d.names[t] = "default" + d.typeName(t)
	}
	return d.names[t]
}

func (d *defaulter) setter(t reflect.Type) string {
	s := "set" + d.typeName(t)
	if !d.setters[s] {
		return ""
	}
	d.used[s] = true
	return s
}

// need says whether a type has defaults, its own or those of what it holds.
func (d *defaulter) need(t reflect.Type) bool {
	if t.Kind() == reflect.Map && t.Name() != "" {
		return d.setter(t) != ""
	}
	if t.Kind() != reflect.Struct || predeclared[key(t)] != "" {
		return false
	}
	if n, ok := d.needs[t]; ok {
		return n
	}
	d.needs[t] = false // a type that holds itself adds nothing by that
	n := d.setter(t) != ""
	if c := d.m.con.types[key(t)]; c != nil {
		for _, f := range c.fields {
			n = n || f.def != nil
		}
	}
	for i := range t.NumField() {
		n = d.need(element(t.Field(i).Type)) || n
	}
	d.needs[t] = n
	return n
}

// write writes the function of a type: what people wrote, the static defaults,
// then the fields.
func (d *defaulter) write(t reflect.Type) {
	g := d.g
	if t.Kind() == reflect.Map {
		g.printf("func %s(m %s.%s) { %s(m) }\n\n", d.names[t], g.importName(t.PkgPath()), t.Name(), d.setter(t))
		return
	}
	g.printf("func %s(o *%s.%s) {\n", d.names[t], g.importName(t.PkgPath()), t.Name())
	if s := d.setter(t); s != "" {
		g.printf("%s(o)\n", s)
	}
	for i := range t.NumField() {
		d.static(t, t.Field(i))
	}
	for i := range t.NumField() {
		d.descend(t.Field(i))
	}
	g.printf("}\n\n")
}

// static sets one field to the default that is written about it.
func (d *defaulter) static(t reflect.Type, sf reflect.StructField) {
	c := d.m.con.types[key(t)]
	if c == nil {
		return
	}
	name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
	fc := c.fields[name]
	if fc == nil || fc.def == nil {
		return
	}
	zero, value := d.value(sf.Type, fc.def)
	if value != zero { // *"" and *false on a plain field are what Go has anyway
		d.g.printf("if o.%s == %s {\no.%s = %s\n}\n", sf.Name, zero, sf.Name, value)
	}
}

// value returns the Go of a default and the value that stands for "left out".
func (d *defaulter) value(t reflect.Type, e cueast.Expr) (zero, value string) {
	if t.Kind() == reflect.Pointer {
		switch {
		case t.Elem().Kind() == reflect.Struct && isEmptyStruct(e):
			return "nil", fmt.Sprintf("&%s.%s{}", d.g.importName(t.Elem().PkgPath()), t.Elem().Name())
		case t.Elem().PkgPath() != "":
			_, v := d.value(t.Elem(), e)
			return "nil", fmt.Sprintf("new(%s.%s(%s))", d.g.importName(t.Elem().PkgPath()), t.Elem().Name(), v)
		}
		_, v := d.value(t.Elem(), e)
		return "nil", fmt.Sprintf("new(%s(%s))", t.Elem().Kind(), v)
	}
	lit, ok := e.(*cueast.BasicLit)
	if !ok {
		d.m.fail("default %s: cannot say it in Go", source(e))
		return "", ""
	}
	switch {
	case lit.Kind == cuetoken.STRING && t.Kind() == reflect.String:
		s, err := cueliteral.Unquote(lit.Value)
		if err != nil {
			d.m.fail("default %s: %w", lit.Value, err)
		}
		return `""`, fmt.Sprintf("%q", s)
	case lit.Kind == cuetoken.INT && (t.Kind() == reflect.Int32 || t.Kind() == reflect.Int64):
		return "0", lit.Value
	case t.Kind() == reflect.Bool && (lit.Kind == cuetoken.TRUE || lit.Kind == cuetoken.FALSE):
		return "false", lit.Value
	}
	d.m.fail("default %s: does not fit the Go type %s", lit.Value, t)
	return "", ""
}

func isEmptyStruct(e cueast.Expr) bool {
	s, ok := e.(*cueast.StructLit)
	return ok && len(s.Elts) == 0
}

// descend calls the function of a field's type.
func (d *defaulter) descend(sf reflect.StructField) {
	e := element(sf.Type)
	if !d.need(e) {
		return
	}
	fn, g, t := d.function(e), d.g, sf.Type
	switch {
	case e.Kind() == reflect.Map:
		g.printf("%s(o.%s)\n", fn, sf.Name)
	case t.Kind() == reflect.Pointer:
		g.printf("if o.%s != nil {\n%s(o.%s)\n}\n", sf.Name, fn, sf.Name)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Pointer:
		g.printf("for _, e := range o.%s {\nif e != nil {\n%s(e)\n}\n}\n", sf.Name, fn)
	case t.Kind() == reflect.Slice:
		g.printf("for i := range o.%s {\n%s(&o.%s[i])\n}\n", sf.Name, fn, sf.Name)
	default:
		g.printf("%s(&o.%s)\n", fn, sf.Name)
	}
}
