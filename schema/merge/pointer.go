package merge

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Pointer is a JSON pointer (RFC 6901) taken apart. An item of a list is named
// by its index, by "*" for all, or by "key=value". One without parts means the
// whole object.
type Pointer []string

// ParsePointer takes a pointer apart.
func ParsePointer(s string) Pointer {
	if s == "" || s == "/" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(s, "/"), "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return parts
}

// Ignored are the pointers of the rules that hold for an object.
func Ignored(rules []v1alpha1.IgnoreRule, kind string, key schema.Key) []Pointer {
	var out []Pointer
	for _, r := range rules {
		if !glob(r.Kind, kind) || !glob(r.Namespace, key.Namespace) || !glob(r.Name, key.Name) {
			continue
		}
		if len(r.Fields) == 0 {
			out = append(out, nil)
		}
		for _, f := range r.Fields {
			out = append(out, ParsePointer(f))
		}
	}
	return out
}

func glob(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, s)
	return err == nil && ok
}

// Covers says whether a path is what the pointer names, or below it.
func (r Pointer) Covers(p fieldpath.Path) bool {
	if len(r) > len(p) {
		return false
	}
	for i, token := range r {
		e := p[i]
		switch {
		case token == "*":
		case e.FieldName != nil:
			if *e.FieldName != token {
				return false
			}
		case e.Index != nil:
			if strconv.Itoa(*e.Index) != token {
				return false
			}
		case e.Key != nil:
			key, val, _ := strings.Cut(token, "=")
			if !hasField(*e.Key, key, val) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func hasField(key value.FieldList, name, val string) bool {
	for _, f := range key {
		if f.Name == name && fmt.Sprint(f.Value.Unstructured()) == val {
			return true
		}
	}
	return false
}
