package reference

import (
	"fmt"
	"strings"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Key is a key of a ConfigMap or of a Secret that an object reads.
type Key struct {
	Place
	Name string
}

// Keys are those that a ConfigMap or a Secret declares, with commas between them;
// "" of all else, and where they cannot be known.
//
// One that declares none is there for a program to fill, as those of serving
// certificates often are: nothing is said of it.
func Keys(m *render.Manifest) string {
	if m.Resource.Custom != nil || m.Resource.Group != "" || m.Sealed || m.Masked {
		return ""
	}
	var of []string
	switch m.Resource.Kind {
	case "ConfigMap":
		of = []string{"data", "binaryData"}
	case "Secret":
		of = []string{"data", "stringData"}
	}
	var b strings.Builder
	for _, field := range of {
		for key := range m.Value().Get(field).Fields() {
			if b.Len() > 0 {
				b.WriteByte(',')
			}
			b.WriteString(key)
		}
	}
	return b.String()
}

// Lacks are the keys that the need is of and that are not among others.
func (n *Need) Lacks(keys string) (out []Key) {
	if keys == "" {
		return nil
	}
	for _, k := range n.Keys {
		if !strings.Contains(","+keys+",", ","+k.Name+",") {
			out = append(out, k)
		}
	}
	return out
}

// LacksKey is the finding that an object of the commit has no such key.
func (n *Need) LacksKey(h *render.Head, k Key) v1alpha1.Finding {
	return k.finding(h, RuleKey, fmt.Sprintf("%s has no key %s: %s", n.Ref, k.Name, n.Why))
}

// items notes which keys of a volume's ConfigMap or Secret are mounted.
func (n *Need) items(v render.Value, at string) {
	if n == nil {
		return
	}
	for i, item := range v.Get("items").Items() {
		n.key(item, fmt.Sprintf("%s.items[%d]", at, i))
	}
}

// key notes the key that a reference names.
func (n *Need) key(v render.Value, at string) {
	if n == nil {
		return
	}
	if key := v.Get("key"); key.Text() != "" {
		n.Keys = append(n.Keys, Key{place(key, at+".key"), key.Text()})
	}
}
