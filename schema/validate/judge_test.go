package validate

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// TestJudgesAreOfOneMindWithTheLibrary breaks the corpus in thousands of ways:
// a judge accepts what the schema that it was made of accepts, in the numbers of
// JSON and in those of Go.
func TestJudgesAreOfOneMindWithTheLibrary(t *testing.T) {
	rounds := 300
	if testing.Short() || raceEnabled { // there is no concurrency in it to watch
		rounds = 20
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var a acceptor
	accepted, refused := 0, 0
	for i, m := range corpus(t) {
		kind := m.resource.Definition()
		j := a.compile(kind)
		s, err := a.compiler.Compile(schemaBase + kind)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		for range rounds {
			data, what := mutate(t, rng, m.json)
			v, plain, err := decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if !plain {
				continue
			}
			want := s.Validate(v) == nil
			if got := j.accepts(v); got != want {
				t.Errorf("%s, %s: accepted: %v, want %v\n%s", m.name, what, got, want, data)
			}
			if v, ok := inGo(v); ok {
				if got := j.accepts(v); got != want {
					t.Errorf("%s, %s: accepted in numbers of Go: %v, want %v\n%s", m.name, what, got, want, data)
				}
			}
			if want {
				accepted++
			} else {
				refused++
			}
		}
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	if accepted == 0 || refused == 0 {
		t.Error("the mutations prove nothing")
	}
}

// inGo is a value with int64 in the place of numbers; false if one is none.
func inGo(v any) (any, bool) {
	switch v := v.(type) {
	case json.Number:
		return wholeOrNone(v)
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			e, ok := inGo(e)
			if !ok {
				return nil, false
			}
			out[k] = e
		}
		return out, true
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			var ok bool
			if out[i], ok = inGo(e); !ok {
				return nil, false
			}
		}
		return out, true
	}
	return v, true
}

func wholeOrNone(n json.Number) (any, bool) {
	i, ok := wholeNumber(n)
	return i, ok
}

// TestJudgesKnowEverySchema: nothing of what the generator writes is left to
// the library but what is no word.
func TestJudgesKnowEverySchema(t *testing.T) {
	var a acceptor
	a.compile("Pod")
	for name := range a.lines {
		if name != "" {
			a.compile(name)
		}
	}
	left := 0
	for s, j := range a.judges {
		if j.other != nil {
			left++
			if s.Const == nil && s.Enum == nil {
				t.Errorf("%s is left to the library", s.Location)
			}
		}
	}
	t.Logf("%d of %d schemas are left to the library", left, len(a.judges))
	if left > len(a.judges)/100 {
		t.Errorf("%d of %d schemas are left to the library", left, len(a.judges))
	}
}
