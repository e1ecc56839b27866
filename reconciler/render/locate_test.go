package render

import (
	"fmt"
	"testing"

	"cuelang.org/go/cue/parser"
)

// TestLocate: a path leads to its key, and to its value, and as far as the
// manifest goes where it lacks the rest.
func TestLocate(t *testing.T) {
	e, err := parser.ParseExpr("a.yaml", `{
  "metadata": {"annotations": {"example.com/a.b": "x"}, "name": "n"}
  "spec": {
    "list": [{"name": "one", "n":  -3}, {"name": "two.x", "ok": true}]
    "data": {"1": "a"}
  }
}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, key, value, text string }{
		{"metadata.name", "2:57", "2:65", `"n"`},
		{"metadata.annotations[example.com/a.b]", "2:32", "2:51", `"x"`},
		{"spec.list[0].n", "4:30", "4:36", "-3"},
		{`spec.list[name="two.x"].ok`, "4:59", "4:65", "true"},
		{"spec.list[1]", "4:41", "4:41", ""},
		{"spec.data[1]", "5:14", "5:19", `"a"`},
		{"spec.list[0].missing.deep", "4:14", "4:14", ""},
		{"spec.none", "3:3", "3:3", ""},
		{"nothing", "1:1", "1:1", ""},
	} {
		key := Locate(e, c.path)
		value, text := LocateValue(e, c.path)
		if got := fmt.Sprintf("%d:%d", key.Line, key.Column); got != c.key {
			t.Errorf("%s: the key is at %s, want %s", c.path, got, c.key)
		}
		if got := fmt.Sprintf("%d:%d", value.Line, value.Column); got != c.value || text != c.text {
			t.Errorf("%s: the value is at %s, %q, want %s, %q", c.path, got, text, c.value, c.text)
		}
	}
}
