package policy

import (
	"bytes"
	"encoding/json"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	cuejson "cuelang.org/go/encoding/json"
)

// constraints are texts that are understood quickly, or are not.
var constraints = []struct {
	text  string
	quick bool
}{
	{`{spec: replicas: >=2}`, true},
	{`{spec: {replicas: >=2 & <=5}}`, true},
	{`{metadata: labels: team!: string}`, true},
	{`{spec?: {paused?: true}}`, true},
	{`{spec: hostNetwork?: _|_}`, true},
	{`{list: [...{image: =~"^a/"}]}`, true},
	{`{list: [...{image: !~":latest$", x?: _|_}], ...}`, true},
	{`{kind: "a" | "b"}`, true},
	{`{on: bool, any: _}`, true},
	{`{a: b: c: "x"}`, true},
	{`{n: int}`, false},
	{`{n: 3}`, false},
	{`{n: >1.5}`, false},
	{`{a: string, b: a}`, false},
	{`{[=~"^x"]: string}`, false},
	{`{if spec.x != _|_ {y: 1}, spec: _}`, false},
	{`{list: [string, ...string]}`, false},
	{`{s: strings.MaxRunes(3)}`, false},
	{`close({kind: "a"})`, false},
}

var objects = []string{
	`{}`, `{"spec": {}}`, `{"spec": {"replicas": 1}}`, `{"spec": {"replicas": 3}}`, `{"spec": {"replicas": 9}}`, `{"spec": {"replicas": "3"}}`,
	`{"spec": {"replicas": 3.0}}`, `{"spec": {"replicas": 3e0}}`, `{"spec": null}`, `{"spec": {"paused": true}}`, `{"spec": {"paused": false}}`,
	`{"spec": {"hostNetwork": false}}`, `{"metadata": {"labels": {"team": "x"}}}`, `{"metadata": {"labels": {"team": 1}}}`, `{"metadata": {}}`,
	`{"list": []}`, `{"list": [{"image": "a/b"}]}`, `{"list": [{"image": "b"}]}`, `{"list": [{"image": "a:latest"}, {}]}`, `{"list": [{"image": "a", "x": 1}]}`, `{"list": {}}`,
	`{"kind": "a"}`, `{"kind": "c"}`, `{"on": true, "any": null}`, `{"on": "true", "any": 1}`, `{"on": true}`,
	`{"a": {"b": {"c": "x"}}}`, `{"a": {"b": {"c": "y"}}}`, `{"a": {"b": {}}}`, `{"a": {}}`, `{"n": 3}`, `{"n": 2.5}`, `{"xy": 1}`, `{"xy": "1"}`,
	`{"a": "q", "b": "q"}`, `{"a": "q", "b": "r"}`, `{"list": ["a", "b"]}`, `[]`, `null`, `"x"`,
}

// TestAcceptIsSound: what is accepted quickly CUE accepts too, and the quick
// way is taken where it can be.
func TestAcceptIsSound(t *testing.T) {
	ctx := cuecontext.New()
	agreed := 0
	for _, c := range constraints {
		text := "import \"strings\"\n_s: strings.MinRunes(0)\nrequire: " + c.text
		v := ctx.CompileString(text).LookupPath(cue.ParsePath("require"))
		if err := v.Err(); err != nil {
			t.Fatal(c.text, err)
		}
		quick := compile(v, 0)
		if (quick != nil) != c.quick {
			t.Errorf("%s: understood: %v", c.text, quick != nil)
		}
		if quick == nil {
			continue
		}
		if !quick.ready(0) {
			t.Errorf("%s: is not ready", c.text)
			continue
		}
		for _, o := range objects {
			steps := stepsPerObject
			d := json.NewDecoder(bytes.NewReader([]byte(o)))
			d.UseNumber()
			var plain any
			if err := d.Decode(&plain); err != nil {
				t.Fatal(err)
			}
			expr, err := cuejson.Extract("o.json", []byte(o))
			if err != nil {
				t.Fatal(err)
			}
			err = v.Unify(ctx.BuildExpr(expr)).Validate(cue.Concrete(true))
			if quick.satisfied(plain, &steps) && err != nil {
				t.Errorf("%s accepts %s, and CUE does not: %v", c.text, o, err)
			}
			if quick.satisfied(plain, &steps) == (err == nil) {
				agreed++
			}
		}
	}
	if agreed < 250 {
		t.Errorf("they agree %d times only", agreed)
	}
}
