package validate

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	cuejson "cuelang.org/go/encoding/json"

	"github.com/writ-os/writ/schema"
)

// judgement of CUE on the whole object, without the JSON Schema and without
// the walk.
func cueAccepts(r *schema.Resource, expr ast.Expr) bool {
	d := definitionsOnce()
	def := d.scope.LookupPath(cue.MakePath(cue.Def(r.Definition())))
	return def.Unify(d.ctx.BuildExpr(withoutNulls(expr))).Validate(cue.Concrete(true)) == nil
}

// TestJSONSchemaAgreesWithCUE breaks the corpus in thousands of ways and asks
// all three: JSON Schema, CUE and the walk that explains.
func TestJSONSchemaAgreesWithCUE(t *testing.T) {
	rounds := 20
	if testing.Short() || raceEnabled { // there is no concurrency in it to watch
		rounds = 3
	}
	if s := os.Getenv("WRIT_MUTATIONS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	accepted, refused, generic := 0, 0, 0
	for i, m := range corpus(t) {
		rng := rand.New(rand.NewPCG(36, uint64(i)))
		for range rounds {
			data, what := mutate(t, rng, m.json)
			v, plain, err := decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if !plain {
				continue
			}
			expr, err := cuejson.Extract("m.json", data)
			if err != nil {
				t.Fatal(err)
			}
			js, c := accepts(m.resource, v), cueAccepts(m.resource, expr)
			if js != c {
				t.Errorf("%s, %s: JSON Schema accepts: %v, CUE accepts: %v\n%s", m.name, what, js, c, data)
			}
			findings := explain(m.resource, expr)
			if c != (len(findings) == 0) {
				t.Errorf("%s, %s: CUE accepts: %v, but findings: %v", m.name, what, c, findings)
			}
			for _, f := range findings {
				if strings.Contains(f.Message, "conflicting values") || strings.Contains(f.Message, "does not satisfy") {
					generic++
					t.Errorf("%s, %s: the message is CUE's own: %s", m.name, what, f.Message)
				}
			}
			if c {
				accepted++
			} else {
				refused++
			}
		}
	}
	t.Logf("%d mutations accepted, %d refused", accepted, refused)
	if accepted == 0 || refused == 0 {
		t.Error("the mutations prove nothing")
	}
}

// mutate changes one to three things at random places.
func mutate(t *testing.T, rng *rand.Rand, data []byte) ([]byte, string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var what []string
	for range 1 + rng.IntN(8)/6 {
		what = append(what, mutateAt(rng, v, ""))
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out, strings.Join(what, ", ")
}

// odd is a value to put where another was. It is new each time: what is changed
// inside it later is nobody else's, and it is never put into itself.
func odd(rng *rand.Rand) any {
	all := []any{
		"", "x", "X_y", "a.b", "-", "None", "True", "10", "25%", "101%", "0%", "1.5Gi", "-1Gi", "10.0.0.1", "10.0.0.0/8", "a/b", "/abs", "../up", "web:v1", "2026-01-02T03:04:05Z",
		"ClusterIP", "ExternalName", "Recreate", "Localhost", "Exists", "Always", "Never", "Indexed", strings.Repeat("a", 64), strings.Repeat("a", 254),
		json.Number("0"), json.Number("1"), json.Number("-1"), json.Number("70000"), json.Number("3000000000"), json.Number("1.5"), json.Number("99999999999999999999"),
		true, false, nil, map[string]any{}, []any{}, []any{"x"}, map[string]any{"name": "x"}, []any{map[string]any{}}, []any{nil},
	}
	return all[rng.IntN(len(all))]
}

// mutateAt walks down to a random field and changes it.
func mutateAt(rng *rand.Rand, v any, path string) string {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) == 0 || rng.IntN(12) == 0 {
			v["extra"] = odd(rng)
			return "add " + path + ".extra"
		}
		k := keys[rng.IntN(len(keys))]
		if child := v[k]; isContainer(child) && rng.IntN(5) > 0 {
			return mutateAt(rng, child, path+"."+k)
		}
		switch rng.IntN(6) {
		case 0:
			delete(v, k)
			return "delete " + path + "." + k
		case 1:
			v[k+"x"] = v[k]
			delete(v, k)
			return "rename " + path + "." + k
		case 2:
			other := keys[rng.IntN(len(keys))]
			v[k] = v[other]
			return "copy " + path + "." + other + " to " + k
		default:
			v[k] = odd(rng)
			return "replace " + path + "." + k
		}
	case []any:
		if len(v) == 0 {
			return "nothing"
		}
		i := rng.IntN(len(v))
		if isContainer(v[i]) && rng.IntN(5) > 0 {
			return mutateAt(rng, v[i], path+"[]")
		}
		v[i] = odd(rng)
		return "replace " + path + "[]"
	}
	return "nothing"
}

func isContainer(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}

// TestEveryPartCompiles builds every part of every definition that a walk may
// ask CUE about: a part that does not compile would refuse everything.
func TestEveryPartCompiles(t *testing.T) {
	d := definitionsOnce()
	n := 0
	for name, def := range d.syntax {
		ast.Walk(def.body, func(node ast.Node) bool {
			f, ok := node.(*ast.Field)
			if !ok {
				return true
			}
			for _, part := range conjuncts(f.Value) {
				if _, ok := part.(*ast.StructLit); ok {
					continue
				}
				if err := d.compile(part).Err(); err != nil && strings.Contains(err.Error(), "not found") {
					t.Errorf("%s: %v", name, err)
				}
				n++
			}
			return true
		}, nil)
		for _, r := range append(def.groups, def.rules...) {
			if err := d.compile(r).Err(); err != nil && strings.Contains(err.Error(), "not found") {
				t.Errorf("%s: %v", name, err)
			}
			n++
		}
	}
	if n < 1000 {
		t.Errorf("only %d parts", n)
	}
}
