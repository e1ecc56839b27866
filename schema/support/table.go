package support

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// table has the rows of one type by the name of the field.
type table struct {
	rows map[string][]keyed
	// way says that the type only leads to others: fields that it does not name
	// are of no interest here.
	way bool
}

// entry is a row of some fields of a type. A name may end in a key of a map:
// "limits[ephemeral-storage]".
type entry struct {
	names string // by spaces
	row   Row
	way   bool
}

// tables are all rows.
var tables = map[reflect.Type]*table{}

// fields puts the rows of a type into the table.
func fields[T any](entries ...entry) bool {
	t := reflect.TypeFor[T]()
	tab := &table{rows: map[string][]keyed{}}
	for i := range entries {
		e := &entries[i]
		tab.way = tab.way || e.way
		for name := range strings.FieldsSeq(e.names) {
			name, key, _ := strings.Cut(strings.TrimSuffix(name, "]"), "[")
			tab.rows[name] = append(tab.rows[name], keyed{key, &e.row})
		}
	}
	if tables[t] != nil {
		panic(fmt.Sprintf("two tables of %v", t))
	}
	tables[t] = tab
	return true
}

// descends says whether the fields below one have rows of their own: where it
// is honoured as a whole, or for some of its values.
func (t *table) descends(f reflect.StructField) bool {
	return slices.ContainsFunc(t.rows[tableName(f)], func(k keyed) bool { return k.row.Verdict == Honoured && k.key == "" })
}

func honoured(names string) entry { return entry{names: names} }

// through names the fields of a type by which others are reached.
func through(names string) entry { return entry{names: names, way: true} }

func ignored(names, why string) entry {
	return entry{names: names, row: Row{Verdict: Ignored, Why: why}}
}

// partly are fields that are honoured, with what to know about them.
func partly(names, why string) entry { return entry{names: names, row: Row{Why: why}} }

func refused(names, why, instead string) entry {
	return entry{names: names, row: Row{Verdict: Lacking, API: Refuse, Git: Refuse, Why: why, Instead: instead}}
}

func warned(names, why, instead string) entry {
	return entry{names: names, row: Row{Verdict: Lacking, API: Warn, Git: Warn, Why: why, Instead: instead}}
}

// onlyGit leaves the API a warning: clients may make such objects, since
// upstream's own clients do, and a commit may not.
func (e entry) onlyGit() entry {
	e.row.API = Warn
	return e
}

// inGit leaves it to commits: the server fills the field in by itself.
func (e entry) inGit() entry {
	e.row.API = Accept
	return e
}

// leftOut lets the author of a commit accept that nothing acts on the field,
// which is left out then.
func (e entry) leftOut() entry {
	e.row.LeftOut = true
	return e
}

// withAll is leftOut of the whole struct that the field is in.
func (e entry) withAll() entry {
	e.row.LeftOut, e.row.Above = true, true
	return e
}

// when says of which values a row is: in words and as a function.
func (e entry) when(in string, fn func(reflect.Value) bool) entry {
	e.row.Values, e.row.When = in, fn
	return e
}

// is holds for values, and for pointers to them.
func is[T comparable](values ...T) func(reflect.Value) bool {
	return func(v reflect.Value) bool {
		x, ok := read[T](v)
		return ok && slices.Contains(values, x)
	}
}

// isNot holds for all values that are set, but these.
func isNot[T comparable](values ...T) func(reflect.Value) bool {
	return func(v reflect.Value) bool {
		x, ok := read[T](v)
		var zero T
		return ok && x != zero && !slices.Contains(values, x)
	}
}

// read returns a value or what a pointer points to.
func read[T any](v reflect.Value) (x T, ok bool) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return x, false
		}
		v = v.Elem()
	}
	x, ok = v.Interface().(T)
	return x, ok
}

// always holds for empty values too.
func always(reflect.Value) bool { return true }
