package main

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// definition is one CUE definition: of a kind, of a struct that kinds use, or
// a variant of one.
type definition struct {
	Name   string // without #
	Type   reflect.Type
	Row    *row // for kinds
	Doc    string
	Fields []member
	Groups []group
	Rules  []rule
	// Status types are what controllers report: every field may be left out.
	Status bool
}

// member is one field of a definition.
type member struct {
	field
	Doc      string
	Required bool
	Expr     string // CUE
}

// model is all definitions, by name, with what was written about them.
type model struct {
	docs  *docs
	con   *constraints
	defs  map[string]*definition
	names map[reflect.Type]string
	// status is set while the types of status fields are read.
	status bool
	err    error
}

// predeclared are Go types whose JSON form is not that of their fields.
var predeclared = map[string]string{
	"meta/v1.Time":            "#Time",
	"meta/v1.MicroTime":       "#MicroTime",
	"meta/v1.Duration":        "#Duration",
	"meta/v1.FieldsV1":        "{[string]: _}",
	"runtime.RawExtension":    "_",
	"util/intstr.IntOrString": "#IntOrString",
	"api/resource.Quantity":   "#Quantity",

	"apiextensions/v1.JSON":                         "_",
	"apiextensions/v1.JSONSchemaPropsOrArray":       "{...}",
	"apiextensions/v1.JSONSchemaPropsOrBool":        "_",
	"apiextensions/v1.JSONSchemaPropsOrStringArray": "_",
	"apiextensions/v1.JSONSchemaProps":              "{...}",
}

// key is typeKey for the types of apimachinery as well.
func key(t reflect.Type) string {
	return strings.TrimPrefix(typeKey(t), "k8s.io/apimachinery/pkg/")
}

// readModel builds every definition of the table.
func readModel(rows []*row, d *docs, con *constraints) (*model, error) {
	m := &model{docs: d, con: con, defs: map[string]*definition{}, names: map[reflect.Type]string{}}
	for _, r := range rows {
		m.names[r.Type] = r.Definition()
	}
	// What is declared first, then what is only reported: a type that both
	// use is held to what is declared.
	for _, m.status = range []bool{false, true} {
		for _, r := range rows {
			m.kind(r)
		}
	}
	for _, v := range con.variants {
		m.variant(v)
	}
	m.checkUsed()
	return m, m.err
}

func (m *model) fail(format string, a ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, a...)
	}
}

// kind builds the definition of a row; its status in the second round.
func (m *model) kind(r *row) {
	d := m.defs[r.Definition()]
	if d == nil {
		d = &definition{Name: r.Definition(), Type: r.Type, Row: r, Doc: sentence(m.docs.types[r.Type.PkgPath()+"."+r.Type.Name()])}
		m.defs[r.Definition()] = d
	}
	c := m.constraintOf(r.Type)
	for _, f := range fieldsOf(r.Type) {
		if (f.Name == "status") != m.status {
			continue
		}
		switch f.Name {
		case "apiVersion":
			d.Fields = append(d.Fields, member{field: f, Required: true, Expr: fmt.Sprintf("%q", r.APIVersion())})
		case "kind":
			d.Fields = append(d.Fields, member{field: f, Required: true, Expr: fmt.Sprintf("%q", r.Kind)})
		case "metadata":
			e := member{field: f, Required: true, Expr: "#Metadata"}
			if fc := c.fields[f.Name]; fc != nil {
				e.Expr, fc.used = source(fc.expr), true
			}
			d.Fields = append(d.Fields, e)
		default:
			d.Fields = append(d.Fields, m.member(f, c))
		}
	}
	d.Groups, d.Rules = c.groups, c.rules
}

// define builds the definition of a struct type, once, and returns its name.
func (m *model) define(t reflect.Type) string {
	name := m.nameOf(t)
	if m.defs[name] != nil {
		return name
	}
	c := m.constraintOf(t)
	d := &definition{Name: name, Type: t, Status: m.status, Groups: c.groups, Rules: c.rules,
		Doc: sentence(m.docs.types[t.PkgPath()+"."+t.Name()])}
	m.defs[name] = d
	for _, f := range fieldsOf(t) {
		d.Fields = append(d.Fields, m.member(f, c))
	}
	return name
}

// nameOf gives a struct type the name of its definition. Where two packages
// have a type of one name, the second is called after its package too.
func (m *model) nameOf(t reflect.Type) string {
	name, ok := m.names[t]
	if ok && m.defs[name] != nil && m.defs[name].Row != nil {
		return "Embedded" + name // a kind inside another: apiVersion and kind are optional
	}
	if ok {
		return name
	}
	name = t.Name()
	for other, n := range m.names {
		if n == name && other != t {
			group := path.Base(path.Dir(t.PkgPath()))
			name = strings.ToUpper(group[:1]) + group[1:] + name
			break
		}
	}
	m.names[t] = name
	return name
}

// variant builds a second definition of a type.
func (m *model) variant(v *variant) {
	base := m.byKey(v.of)
	if base == nil {
		m.fail("variant %s: there is no type %s", v.name, v.of)
		return
	}
	over := m.constraintOf(base.Type)
	merged := &constraint{fields: map[string]*fieldConstraint{}, groups: append(slices.Clone(over.groups), v.groups...), rules: append(slices.Clone(over.rules), v.rules...)}
	maps.Copy(merged.fields, over.fields)
	maps.Copy(merged.fields, v.fields)
	d := &definition{Name: v.name, Type: base.Type, Groups: merged.groups, Rules: merged.rules, Doc: base.Doc}
	m.defs[v.name] = d
	m.status = false
	for _, f := range fieldsOf(base.Type) {
		if e := m.member(f, merged); e.Expr != "_|_" {
			d.Fields = append(d.Fields, e)
		}
	}
	for name, fc := range v.fields {
		if !fc.used {
			m.fail("variant %s: %s has no field %q", v.name, v.of, name)
		}
	}
}

func (m *model) byKey(k string) *definition {
	for _, d := range m.defs {
		if key(d.Type) == k && (d.Row == nil || m.defs["Embedded"+d.Name] == nil) {
			return d
		}
	}
	return nil
}

func (m *model) constraintOf(t reflect.Type) *constraint {
	if c := m.con.types[key(t)]; c != nil {
		c.used = true
		return c
	}
	return &constraint{}
}

// member joins what the Go type says about a field with what is written.
func (m *model) member(f field, c *constraint) member {
	e := member{field: f, Doc: sentence(m.docs.comment(f)), Expr: m.expr(f.Type)}
	e.Required = !m.status && !f.Omitempty && !m.docs.optional(f)
	if values := m.enum(f.Type); values != "" && !m.status {
		e.Expr = m.orEmpty(values, f, e.Required)
	}
	fc := c.fields[f.Name]
	if fc == nil {
		// Of an embedded struct the fields are constrained where they are.
		if fc = m.constraintOf(f.Holder).fields[f.Name]; fc == nil {
			return e
		}
	}
	fc.used = true
	switch fc.mark {
	case token.NOT:
		e.Required = true
	case token.OPTION:
		e.Required = false
	}
	if fc.expr != nil {
		e.Expr = m.orEmpty(join(m.expr(f.Type), fc.expr), f, e.Required)
	}
	return e
}

// orEmpty lets "" stand for an optional string that Go cannot tell from one
// that was left out.
func (m *model) orEmpty(expr string, f field, required bool) string {
	if f.Type.Kind() != reflect.String || required || expr == "string" || expr == "_|_" {
		return expr
	}
	return `"" | ` + parens(expr)
}

func parens(expr string) string {
	if strings.Contains(expr, "&") {
		return "(" + expr + ")"
	}
	return expr
}

// join puts a constraint on the expression of a Go type: bounds and calls
// narrow it, everything else says the type itself.
func join(typ string, e ast.Expr) string {
	first := e
	for {
		b, ok := first.(*ast.BinaryExpr)
		if !ok || b.Op != token.AND {
			break
		}
		first = b.X
	}
	switch first.(type) {
	case *ast.UnaryExpr, *ast.CallExpr:
		return typ + " & " + source(e)
	}
	return source(e)
}

// expr is the CUE of a Go type.
func (m *model) expr(t reflect.Type) string {
	if s, ok := predeclared[key(t)]; ok {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.expr(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32:
		return "int32"
	case reflect.Int, reflect.Int64:
		return "int64"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "#Bytes"
		}
		return "[..." + m.element(t.Elem()) + "]"
	case reflect.Map:
		return "{[string]: " + m.element(t.Elem()) + "}"
	case reflect.Struct:
		return "#" + m.define(t)
	}
	m.fail("%s: cannot say %s in CUE", t, t.Kind())
	return "_"
}

func (m *model) element(t reflect.Type) string {
	if values := m.enum(t); values != "" && !m.status {
		return values
	}
	return m.expr(t)
}

// enum returns the values of a string type that its Go source calls an enum.
func (m *model) enum(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.String || t.PkgPath() == "" {
		return ""
	}
	name := t.PkgPath() + "." + t.Name()
	if !strings.Contains(m.docs.types[name], "+enum") {
		return ""
	}
	var out []string
	for _, v := range m.docs.values[name] {
		if s := fmt.Sprintf("%q", v); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return strings.Join(out, " | ")
}

// checkUsed refuses constraints on types and fields that do not exist.
func (m *model) checkUsed() {
	for _, k := range slices.Sorted(maps.Keys(m.con.types)) {
		c := m.con.types[k]
		if !c.used {
			m.fail("constraints: no kind of the table uses a type %s", k)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(c.fields)) {
			if !c.fields[name].used {
				m.fail("constraints: %s has no field %q", k, name)
			}
		}
	}
	for _, d := range m.defs {
		have := map[string]bool{}
		for _, f := range d.Fields {
			have[f.Name] = true
		}
		for _, g := range d.Groups {
			for _, n := range g.fields {
				if !have[n] {
					m.fail("constraints: @%s of %s names %q, which is no field of it", g.rule, d.Name, n)
				}
			}
		}
	}
}
