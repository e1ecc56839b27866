package validate

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/writ-os/writ/schema"
)

// schemaText is every JSON Schema, one on a line behind its name.
//
//go:embed zz_schemas.txt
var schemaText string

// schemaBase is where schemas refer to each other from: "#PodSpec" of CUE is
// schemaBase + "PodSpec".
const schemaBase = "https://writ.dev/schema/"

// acceptor compiles the schemas of kinds when they are first asked for, and
// what they refer to once for all kinds.
type acceptor struct {
	kinds sync.Map // kind -> *judge

	mu       sync.Mutex
	judges   judges
	compiler *jsonschema.Compiler
	lines    map[string]string
	patterns map[string]jsonschema.Regexp
}

var shared acceptor

// accepts says whether the JSON Schema of the resource accepts a decoded
// object.
func accepts(r *schema.Resource, v any) bool {
	s, ok := shared.kinds.Load(r.Definition())
	if !ok {
		s = shared.compile(r.Definition())
	}
	return s.(*judge).accepts(v)
}

// compile compiles the schema of a kind. The schemas are generated and tested
// for every kind of the table, so an error is a mistake in the program.
func (a *acceptor) compile(kind string) *judge {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.compiler == nil {
		a.judges, a.patterns = judges{}, map[string]jsonschema.Regexp{}
		a.lines = indexLines(schemaText)
		a.compiler = jsonschema.NewCompiler()
		a.compiler.UseLoader(a)
		a.compiler.UseRegexpEngine(a.regexp)
	}
	s, err := a.compiler.Compile(schemaBase + kind)
	if err != nil {
		panic("validate: schema of " + kind + ": " + err.Error())
	}
	j := a.judges.of(s)
	a.kinds.Store(kind, j)
	return j
}

// indexLines finds the schema of each name without parsing it.
func indexLines(text string) map[string]string {
	out := map[string]string{}
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		name, body, _ := strings.Cut(line, " ")
		out[name] = body
	}
	return out
}

// Load gives the compiler one schema.
func (a *acceptor) Load(url string) (any, error) {
	line, ok := a.lines[strings.TrimPrefix(url, schemaBase)]
	if !ok {
		return nil, fmt.Errorf("no schema %s", url)
	}
	return jsonschema.UnmarshalJSON(strings.NewReader(line))
}

// regexp compiles a pattern once however often it is used.
func (a *acceptor) regexp(pattern string) (jsonschema.Regexp, error) {
	if re, ok := a.patterns[pattern]; ok {
		return re, nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	a.patterns[pattern] = re
	return re, nil
}

// decode reads JSON as the validator wants it: fields that are null left out.
// It is not plain when JSON Schema and CUE would not agree on a number in it:
// 3.0 is an integer for the one and none for the other.
func decode(data []byte) (v any, plain bool, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, false, err
	}
	if d.More() {
		return nil, false, fmt.Errorf("more than one value")
	}
	return v, prune(v), nil
}

// prune deletes fields that are null and says whether every number is plain.
func prune(v any) bool {
	plain := true
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e == nil {
				delete(v, k)
			} else if !prune(e) {
				plain = false
			}
		}
	case []any:
		for _, e := range v {
			if !prune(e) {
				plain = false
			}
		}
	case json.Number:
		return plainNumber(string(v))
	case string, bool, int64, nil:
	default: // a float64: nobody knows how it was written
		return false
	}
	return plain
}

// plainNumber says whether a number that is written with a fraction or an
// exponent is no integer all the same.
func plainNumber(s string) bool {
	if !strings.ContainsAny(s, ".eE") {
		return true
	}
	f, err := json.Number(s).Float64()
	return err == nil && f != float64(int64(f))
}
