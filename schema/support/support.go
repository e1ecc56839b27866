// Package support says which fields this cluster honours.
//
// Kubernetes' types say more than this cluster does. A field that nobody acts
// on is worse than one that is refused: who asks for a user namespace and gets
// none believes to be safe. So one table has a row for every field that changes
// how something runs: it is honoured; or ignoring it harms nobody, and why; or
// it is refused or warned of, with what to do instead.
//
// The table is by Go type of k8s.io/api and field (table_*.go). A test walks
// the types and fails for a field without a row, so that a field that a later
// k8s.io/api brings is decided on before it is accepted. docs/fields.md is
// written from the table (go generate).
//
// The package watches nothing, owns nothing, and is made of functions of
// values: the registry asks it what to answer a client, the reconciler what to
// say of a commit.
package support

//go:generate go run ./gen

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Action is what is done about a field that is set.
type Action uint8

// Actions, the mildest first.
const (
	Accept Action = iota
	Warn          // accepted, and said
	Refuse
)

func (a Action) String() string { return [...]string{"accepted", "warned of", "refused"}[a] }

// Verdict is what becomes of a field.
type Verdict uint8

// Verdicts.
const (
	Honoured Verdict = iota
	Ignored          // nothing acts on it, and nobody is worse off
	Lacking          // nothing acts on it, and somebody is: API and Git say what is done
)

// Row is what the table says of one field.
type Row struct {
	Verdict Verdict
	// API and Git are what is done about it where clients write and where
	// commits are judged.
	API, Git Action
	// When says of which values. nil: of every one but the empty one. The value
	// may be a nil pointer.
	When func(v reflect.Value) bool
	// Values says the same in words, for people; "" for all.
	Values string
	// Why is a sentence: what happens for want of it, or why that is harmless.
	Why string
	// Instead is what to do; "" where there is nothing to do.
	Instead string
	// LeftOut says that an author may accept in Git that nothing acts on the
	// field: it is left out of what is applied then, so that nothing takes it for
	// granted. Where the API takes the field no such word is needed.
	LeftOut bool
	// Above says that the struct around the field is left out with it: it means
	// nothing without.
	Above bool
}

// Acceptable says whether the author of a commit may accept that nothing acts on
// the field, where the commit is refused otherwise.
func (r *Row) Acceptable() bool { return r.Git == Refuse && (r.LeftOut || r.API != Refuse) }

// Whole is the path of what is left out for a field that is accepted.
func (r *Row) Whole(path string) string {
	if i := strings.LastIndexByte(path, '.'); r.Above && i > 0 {
		return path[:i]
	}
	return path
}

// Name is what a field is called where it is accepted: its path without the
// places in lists.
func Name(p *field.Path) string {
	name, inList := strings.Builder{}, false
	for _, part := range strings.SplitAfter(p.String(), "[") {
		if inList {
			index, rest, _ := strings.Cut(part, "]")
			if strings.Trim(index, "0123456789") != "" {
				name.WriteString("[" + index + "]")
			}
			part = rest
		}
		part, inList = strings.CutSuffix(part, "[")
		name.WriteString(part)
	}
	return name.String()
}

// Finding is one field of an object that is set and not honoured.
type Finding struct {
	Row  *Row
	Path *field.Path
	// Value is the value in words, "" for one of several parts.
	Value string

	key string // which field and value, whatever the place in a list
}

// Message says what is not honoured and why, after the path.
func (f *Finding) Message() string {
	if f.Value == "" {
		return "is not honoured by this cluster: " + f.Row.Why
	}
	return fmt.Sprintf("%s is not honoured by this cluster: %s", f.Value, f.Row.Why)
}

// Error is the finding as the API says it.
func (f *Finding) Error() *field.Error {
	return field.Forbidden(f.Path, withInstead(f.Message(), f.Row.Instead))
}

// Warning is the finding as a client is warned of it.
func (f *Finding) Warning() string {
	return f.Path.String() + ": " + withInstead(f.Message(), f.Row.Instead)
}

func withInstead(text, instead string) string {
	if instead == "" {
		return text
	}
	return text + "; " + instead
}

// Check returns what an object, of a pointer to a type of k8s.io/api, sets and
// this cluster does not honour, in the order of the types' fields. Objects of
// kinds that are not in the table have none.
func Check(o any) []Finding {
	v := reflect.ValueOf(o)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil
	}
	v = v.Elem()
	n := nodes()[v.Type()]
	if n == nil {
		return nil
	}
	if !n.hits(v) { // nearly always: no paths are made
		return annotationFindings(o, nil)
	}
	w := &walker{}
	w.node(v, n, nil, "")
	return annotationFindings(o, w.found)
}

// New returns what an update brings that was not there before: fields that have
// been set and values that have changed, wherever in a list they stand.
func New(found, before []Finding) []Finding {
	have := map[string]int{}
	for i := range before {
		have[before[i].key]++
	}
	var out []Finding
	for _, f := range found {
		if have[f.key]--; have[f.key] < 0 {
			out = append(out, f)
		}
	}
	return out
}

// words of a value: nothing for one that has parts.
func words(v reflect.Value) string {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool, reflect.Int32, reflect.Int64:
		return fmt.Sprint(v.Interface())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String {
			var all []string
			for i := range v.Len() {
				all = append(all, v.Index(i).String())
			}
			return strings.Join(all, ", ")
		}
	}
	return ""
}
