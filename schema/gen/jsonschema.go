package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/encoding/jsonschema"
)

// refPrefix is how jsonschema.Generate refers to a definition.
const refPrefix = "#/$defs/"

// writeSchemas turns the CUE definitions into JSON Schemas: one line for each
// definition, its name and its schema, so that a reader can find one without
// parsing the others. References are the names.
func writeSchemas(rows []*row, m *model, cueFiles map[string][]byte) ([]byte, error) {
	v, err := buildCUE(cueFiles)
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	for _, r := range rows {
		s, err := schemaOf(v, r.Definition())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Kind, err)
		}
		defs, _ := s["$defs"].(map[string]any)
		delete(s, "$defs")
		delete(s, "$schema")
		if defs == nil {
			defs = map[string]any{}
		}
		defs[r.Definition()] = s
		for name, d := range defs {
			d = simplify(d)
			if old, ok := all[name]; ok && !reflect.DeepEqual(old, d) {
				return nil, fmt.Errorf("%s: #%s differs from that of another kind", r.Kind, name)
			}
			all[name] = d
		}
	}
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if d := m.defs[name]; d != nil && !closeObject(all[name], d) {
			return nil, fmt.Errorf("#%s: its JSON Schema does not have its fields", name)
		}
		line, err := json.Marshal(all[name])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s %s\n", name, line)
	}
	return b.Bytes(), nil
}

// closeObject finds the part of a schema that lists the fields of a definition
// and closes it: jsonschema.Generate leaves it open when some kinds of rules
// stand beside. It reports whether the part is there.
func closeObject(s any, d *definition) bool {
	m, ok := s.(map[string]any)
	if !ok {
		return false
	}
	props, _ := m["properties"].(map[string]any)
	same := len(props) == len(d.Fields)
	for _, f := range d.Fields {
		_, have := props[f.Name]
		same = same && have
	}
	if same {
		m["additionalProperties"] = false
		return true
	}
	all, _ := m["allOf"].([]any)
	return slices.ContainsFunc(all, func(e any) bool { return closeObject(e, d) })
}

// buildCUE compiles the generated definitions.
func buildCUE(files map[string][]byte) (cue.Value, error) {
	inst := build.NewContext().NewInstance("writ", nil)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := parser.ParseFile(name, files[name])
		if err != nil {
			return cue.Value{}, err
		}
		if err := inst.AddSyntax(f); err != nil {
			return cue.Value{}, err
		}
	}
	if err := inst.Complete(); err != nil {
		return cue.Value{}, err
	}
	v := cuecontext.New().BuildInstance(inst)
	if err := v.Validate(); err != nil {
		return cue.Value{}, fmt.Errorf("definitions: %s", errors.Details(err, nil))
	}
	return v, nil
}

// schemaOf generates the JSON Schema of one kind with all that it refers to.
func schemaOf(v cue.Value, kind string) (map[string]any, error) {
	expr, err := jsonschema.Generate(v.LookupPath(cue.MakePath(cue.Def(kind))), nil)
	if err != nil {
		return nil, err
	}
	data, err := cuecontext.New().BuildExpr(expr).MarshalJSON()
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var s map[string]any
	return s, d.Decode(&s)
}

// simplify makes a schema cheaper to check and changes nothing of what it
// accepts: CUE says int32 as "number, and an integer between", and bounds of 64
// bits as floating point.
func simplify(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = simplify(v[i])
		}
	case map[string]any:
		for k, e := range v {
			v[k] = simplify(e)
		}
		if ref, ok := v["$ref"].(string); ok {
			v["$ref"] = strings.TrimPrefix(ref, refPrefix)
		}
		for _, k := range []string{"maximum", "minimum"} {
			if n, ok := v[k].(json.Number); ok {
				v[k] = exact(n)
			}
		}
		if n := integer(v); n != nil {
			return n
		}
	}
	return v
}

// integer joins an allOf that only bounds an integer; nil if it says more.
func integer(v map[string]any) map[string]any {
	all, ok := v["allOf"].([]any)
	if !ok || len(v) != 1 {
		return nil
	}
	out := map[string]any{}
	for _, e := range all {
		m, ok := e.(map[string]any)
		if !ok {
			return nil
		}
		for k, x := range m {
			old, have := out[k]
			switch {
			case k == "type" && (x == "integer" || x == "number" && !have):
				out[k] = x
			case k == "type" && x == "number":
			case k == "minimum" && (!have || compare(x, old) > 0), k == "maximum" && (!have || compare(x, old) < 0):
				out[k] = x
			case k == "minimum", k == "maximum":
			default:
				return nil
			}
		}
	}
	if out["type"] != "integer" {
		return nil
	}
	return out
}

func compare(a, b any) int {
	x, _ := a.(json.Number).Int64()
	y, _ := b.(json.Number).Int64()
	return cmp.Compare(x, y)
}

// exact writes a bound as an integer.
func exact(n json.Number) json.Number {
	f, err := n.Float64()
	switch {
	case err != nil:
		return n
	case f >= math.MaxInt64:
		return json.Number(strconv.FormatInt(math.MaxInt64, 10))
	case f <= math.MinInt64:
		return json.Number(strconv.FormatInt(math.MinInt64, 10))
	case f == math.Trunc(f):
		return json.Number(strconv.FormatInt(int64(f), 10))
	}
	return n
}
