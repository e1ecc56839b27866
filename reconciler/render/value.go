package render

import "encoding/json"

// Value is what JSON holds, as maps, lists, strings, json.Number, bool and nil. It
// is made anew for each who asks.
func (m *Manifest) Value() any { return m.node.value() }

func (n *node) value() any {
	switch n.kind {
	case boolNode:
		return n.text == "true"
	case numberNode:
		return json.Number(n.text)
	case stringNode:
		return n.text
	case listNode:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = item.value()
		}
		return out
	case mapNode:
		out := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			out[f.key] = f.val.value()
		}
		return out
	}
	return nil
}
