package cli

import (
	"encoding/json"
	"strconv"
	"strings"
)

// splitField splits "web.spec.replicas" into a name and a field where names may
// have dots themselves: known says which names there are. The longest wins.
func splitField(text string, known func(name string) bool) (name, field string) {
	if known(text) {
		return text, ""
	}
	for i := len(text) - 1; i > 0; i-- {
		if text[i] == '.' && known(text[:i]) {
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

// steps splits a path: a.b[name="x"].c is a, b, [name="x"], c.
func steps(path string) []string {
	var out []string
	start, quoted, inside := 0, false, false
	cut := func(end int) {
		if s := path[start:end]; s != "" {
			out = append(out, s)
		}
	}
	for i := range len(path) {
		switch c := path[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '.' && !inside:
			cut(i)
			start = i + 1
		case c == '[':
			cut(i)
			start, inside = i, true
		case c == ']':
			cut(i + 1)
			start, inside = i+1, false
		}
	}
	cut(len(path))
	return out
}

// valueAt returns what an object has at a path; false when it has nothing.
func valueAt(o any, path string) (any, bool) {
	for _, step := range steps(path) {
		inner, isIndex := strings.CutPrefix(step, "[")
		inner = strings.TrimSuffix(inner, "]")
		switch v := o.(type) {
		case map[string]any:
			next, ok := v[unquote(inner)]
			if !ok {
				return nil, false
			}
			o = next
		case []any:
			next, ok := element(v, inner)
			if !ok || !isIndex {
				return nil, false
			}
			o = next
		default:
			return nil, false
		}
	}
	return o, true
}

// element is one of a list: by index, or by key as in name="web".
func element(list []any, step string) (any, bool) {
	if n, err := strconv.Atoi(step); err == nil {
		if n < 0 || n >= len(list) {
			return nil, false
		}
		return list[n], true
	}
	key, want, ok := strings.Cut(step, "=")
	for _, item := range list {
		if m, isMap := item.(map[string]any); ok && isMap && text(m[key]) == unquote(want) {
			return item, true
		}
	}
	return nil, false
}

func unquote(s string) string {
	if t, err := strconv.Unquote(s); err == nil {
		return t
	}
	return s
}

// text writes a value as people write it in a path.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return compact(v)
}

// compact is a value in one line of JSON.
func compact(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(data)
}

// within says whether a field is another or a part of it.
func within(field, of string) bool {
	a, b := steps(field), steps(of)
	if len(a) < len(b) {
		return false
	}
	for i := range b {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
