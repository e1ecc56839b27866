package trust

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// object returns the fields of a map, of those that it may have.
func (d *decoder) object(n *yaml.Node, at string, known ...string) map[string]*yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		if n != nil {
			d.find(n, at, "WrongType", "must be a map with "+strings.Join(known, ", "), "")
		}
		return nil
	}
	out := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		field := strings.TrimPrefix(at+"."+k.Value, ".")
		switch {
		case k.Kind != yaml.ScalarNode || !slices.Contains(known, k.Value):
			d.find(k, field, "UnknownField", fmt.Sprintf("unknown field %q", k.Value), "known are "+strings.Join(known, ", "))
		case out[k.Value] != nil:
			d.find(k, field, "DuplicateKey", fmt.Sprintf("key %q is already set in line %d", k.Value, out[k.Value].Line), "remove one of the two")
		case v.Kind == yaml.AliasNode:
			d.find(v, field, "Syntax", "a policy has no aliases; write the value itself", "")
		default:
			out[k.Value] = v
		}
	}
	return out
}

func (d *decoder) list(n *yaml.Node, at string) []*yaml.Node {
	switch {
	case n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		return nil
	case n.Kind != yaml.SequenceNode:
		d.find(n, at, "WrongType", "must be a list", "")
		return nil
	case len(n.Content) > maxItems:
		d.find(n, at, "TooLarge", fmt.Sprintf("has more than %d items", maxItems), "")
		return nil
	}
	return n.Content
}

// strings returns the items of a list of texts. An empty list is a mistake:
// "nobody" is not to be confused with "not said".
func (d *decoder) strings(n *yaml.Node, at string) []*yaml.Node {
	items := d.list(n, at)
	if n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == 0 || n != nil && n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		d.find(n, at, "OutOfRange", "must not be empty", "leave the field out, or name somebody")
	}
	var out []*yaml.Node
	for i, item := range items {
		if item.Kind != yaml.ScalarNode || item.ShortTag() != "!!str" || item.Value == "" || len(item.Value) > maxPattern {
			d.find(item, fmt.Sprintf("%s[%d]", at, i), "WrongType", "must be a text", "")
			continue
		}
		out = append(out, item)
	}
	return out
}

func values(nodes []*yaml.Node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Value)
	}
	return out
}

// required returns a text that must be there.
func (d *decoder) required(n *yaml.Node, f map[string]*yaml.Node, at, name string) string {
	v := f[name]
	field := at + "." + name
	switch {
	case f == nil:
	case v == nil:
		d.find(n, field, "Required", name+" is required", "")
	case v.Kind != yaml.ScalarNode || v.ShortTag() != "!!str" || v.Value == "":
		d.find(v, field, "WrongType", name+" must be a text", "")
	default:
		return v.Value
	}
	return ""
}

func (d *decoder) time(n *yaml.Node, at string) time.Time {
	if n == nil {
		return time.Time{}
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, n.Value); err == nil {
			return t
		}
	}
	d.find(n, at, "WrongType", "must be a time like 2027-01-31T00:00:00Z", "")
	return time.Time{}
}

func (d *decoder) boolean(n *yaml.Node, at string) bool {
	var out bool
	if n != nil && (n.ShortTag() != "!!bool" || n.Decode(&out) != nil) {
		d.find(n, at, "WrongType", "must be true or false", "")
	}
	return out
}
