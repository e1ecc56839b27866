package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestGeneratedFilesAreFresh compares what is checked in with what the
// generator would write now.
func TestGeneratedFilesAreFresh(t *testing.T) {
	files, err := generate("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run go generate ./schema", name)
		}
	}
	// A definition that moved to another file must not stay in the old one.
	have, err := filepath.Glob("../cue/zz_*.cue")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range have {
		if _, ok := files["cue/"+filepath.Base(f)]; !ok {
			t.Errorf("%s is not generated any more: delete it", f)
		}
	}
}

// TestDefinitionsHaveTheFieldsOfGo walks the Go types in another way than the
// generator does, and finds no field missing or invented in the definitions.
func TestDefinitionsHaveTheFieldsOfGo(t *testing.T) {
	rows, m := readAll(t)
	seen := map[reflect.Type]bool{}
	for _, r := range rows {
		checkType(t, m, r.Type, r.Definition(), seen)
	}
	if len(seen) < 250 {
		t.Errorf("only %d types checked", len(seen))
	}
	if !seen[rows[1].Type.Field(2).Type] {
		t.Errorf("%s was not reached", rows[1].Type.Field(2).Type)
	}
}

func readAll(t *testing.T) ([]*row, *model) {
	t.Helper()
	rows, err := readTable("../cue/resources.cue")
	if err != nil {
		t.Fatal(err)
	}
	d, err := readDocs(rows)
	if err != nil {
		t.Fatal(err)
	}
	con, err := readConstraints("../cue/constraints")
	if err != nil {
		t.Fatal(err)
	}
	m, err := readModel(rows, d, con)
	if err != nil {
		t.Fatal(err)
	}
	return rows, m
}

// checkType compares one struct type with its definition, then what it holds.
func checkType(t *testing.T, m *model, typ reflect.Type, name string, seen map[reflect.Type]bool) {
	if seen[typ] {
		return
	}
	seen[typ] = true
	d := m.defs[name]
	if d == nil {
		t.Errorf("%s has no definition #%s", typ, name)
		return
	}
	have := map[string]string{}
	for _, f := range d.Fields {
		have[f.Name] = f.Expr
	}
	for _, f := range jsonFields(typ) {
		name := jsonName(f)
		if _, ok := have[name]; !ok {
			t.Errorf("#%s lacks the field %s of %s", d.Name, name, typ)
		}
		delete(have, name)
		e := f.Type
		for e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice || e.Kind() == reflect.Map {
			e = e.Elem()
		}
		if e.Kind() == reflect.Struct && predeclared[key(e)] == "" && m.names[e] != "" {
			checkType(t, m, e, m.names[e], seen)
		}
	}
	for name := range have {
		t.Errorf("#%s has a field %s that %s has not", d.Name, name, typ)
	}
}

// jsonFields lists the fields that encoding/json would use, without the
// generator's help.
func jsonFields(t reflect.Type) []reflect.StructField {
	var out []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		tag := jsonName(f)
		if !f.IsExported() || tag == "" || tag == "-" {
			continue
		}
		// What is embedded under a name of its own is a field like others.
		inline := true
		for n := 1; n < len(f.Index); n++ {
			inline = inline && jsonName(t.FieldByIndex(f.Index[:n])) == ""
		}
		if inline {
			out = append(out, f)
		}
	}
	return out
}

func jsonName(f reflect.StructField) string {
	return strings.Split(f.Tag.Get("json"), ",")[0]
}

func TestConstraintsMustName(t *testing.T) {
	for name, tt := range map[string]struct{ src, want string }{
		"unknown field":   {`types: "core/v1.ContainerPort": containerPart: int`, `core/v1.ContainerPort has no field "containerPart"`},
		"unknown type":    {`types: "core/v1.ContainerPart": name: string`, "no kind of the table uses a type core/v1.ContainerPart"},
		"unknown variant": {`variants: Other: "core/v1.Nothing": {}`, "there is no type core/v1.Nothing"},
		"variant's field": {`variants: Other: "core/v1.Probe": {exce?: _}`, `core/v1.Probe has no field "exce"`},
		"group's field":   {"types: \"core/v1.Probe\": {\n@exactlyOne(exec, htpGet)\n}", `names "htpGet"`},
		"twice":           {"types: \"core/v1.Probe\": {}\ntypes: \"core/v1.Probe\": {}", "constrained twice"},
		"unknown rule":    {"types: \"core/v1.Probe\": {\n@oneOf(exec, httpGet)\n}", "unknown rule @oneOf"},
		"lonely say":      {"types: \"core/v1.Probe\": {\n@say(exec, \"x\")\n}", "after a rule"},
		"stray":           {`port: int`, "want a #format, types or variants"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := readTable("../cue/resources.cue")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			src := "package constraints\nvariants: Metadata: \"meta/v1.ObjectMeta\": {}\n" + tt.src + "\n"
			if err := os.WriteFile(filepath.Join(dir, "c.cue"), []byte(src), 0o644); err != nil {
				t.Fatal(err)
			}
			con, err := readConstraints(dir)
			if err == nil {
				_, err = readModel(rows, &docs{}, con)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestTableMustNameFields(t *testing.T) {
	src, err := os.ReadFile("../cue/resources.cue")
	if err != nil {
		t.Fatal(err)
	}
	for old, wrong := range map[string]string{
		`path: "status.podIP"`:         `path: "status.podIp"`,
		`immutable: ["roleRef"]`:       `immutable: ["roleref"]`,
		`doc: "metadata.creationTimes`: `doc: "metadata.creationTimez`,
	} {
		file := filepath.Join(t.TempDir(), "resources.cue")
		if !bytes.Contains(src, []byte(old)) {
			t.Fatalf("the table has no %s", old)
		}
		if err := os.WriteFile(file, bytes.ReplaceAll(src, []byte(old), []byte(wrong)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readTable(file); err == nil || !strings.Contains(err.Error(), "has no field") {
			t.Errorf("%s: err = %v", wrong, err)
		}
	}
}
