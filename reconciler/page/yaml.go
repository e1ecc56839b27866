package page

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema"
)

// yamlLine is a line of YAML in parts that have colours.
type yamlLine struct {
	N                  int
	Indent, Key, Value string
	Class              string // of the value
}

// maxYAML bounds the lines that a page shows.
const maxYAML = 4000

// yamlOf is an object as people read it: without managed fields, and the values
// of a Secret hidden.
func yamlOf(o schema.Object) ([]yamlLine, error) {
	fields, err := fieldsOf(o)
	if err != nil {
		return nil, err
	}
	b, err := yaml.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("write %s as YAML: %w", o.GetName(), err)
	}
	var out []yamlLine
	for i, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		if i == maxYAML {
			return append(out, yamlLine{N: i + 1, Value: "… more lines are not shown", Class: "c"}), nil
		}
		out = append(out, colour(i+1, line))
	}
	return out, nil
}

// fieldsOf are the fields of an object that may be shown.
func fieldsOf(o schema.Object) (map[string]any, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", o.GetName(), err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, fmt.Errorf("decode %s: %w", o.GetName(), err)
	}
	meta, _ := fields["metadata"].(map[string]any)
	delete(meta, "managedFields")
	if kind, _ := fields["kind"].(string); kind == "Secret" || isSecret(o) {
		hideSecret(fields, meta)
	}
	return fields, nil
}

func isSecret(o schema.Object) bool { _, ok := o.(*corev1.Secret); return ok }

func hideSecret(fields, meta map[string]any) {
	for _, part := range []string{"data", "stringData"} {
		values, _ := fields[part].(map[string]any)
		for k, v := range values {
			s, _ := v.(string)
			n := len(s)
			if part == "data" {
				n = len(s)/4*3 - strings.Count(s[max(0, len(s)-2):], "=")
			}
			values[k] = fmt.Sprintf("(hidden, %s)", plural(n, "byte"))
		}
	}
	// kubectl keeps a copy of all that was applied.
	if a, _ := meta["annotations"].(map[string]any); a != nil {
		if _, ok := a[corev1.LastAppliedConfigAnnotation]; ok {
			a[corev1.LastAppliedConfigAnnotation] = "(hidden)"
		}
	}
}

// colour takes a line apart. A text that looks like a key inside of a block is
// coloured as one; nothing else depends on it.
func colour(n int, line string) yamlLine {
	l := yamlLine{N: n}
	rest := strings.TrimLeft(line, " ")
	for strings.HasPrefix(rest, "- ") {
		rest = strings.TrimLeft(rest[2:], " ")
	}
	l.Indent = line[:len(line)-len(rest)]
	if key, value, ok := strings.Cut(rest, ": "); ok && !strings.ContainsAny(key, " {}[]") {
		l.Key, l.Value = key+":", " "+value
	} else if strings.HasSuffix(rest, ":") && !strings.ContainsAny(rest, " {}[]") {
		l.Key = rest
	} else {
		l.Value = rest
	}
	switch v := strings.TrimSpace(l.Value); {
	case strings.HasPrefix(v, "(hidden"):
		l.Class = "c"
	case v == "true" || v == "false" || v == "null":
		l.Class = "b"
	case v != "" && strings.Trim(v, "-0123456789.") == "":
		l.Class = "n"
	default:
		l.Class = "s"
	}
	return l
}
