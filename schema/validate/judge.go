package validate

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// judge is a compiled JSON Schema that says yes or no, and never why. Nearly
// every object is accepted, and what is wrong with another one CUE says: the
// errors that the library prepares at every step are for nobody.
//
// It knows the keywords that the generated schemas use. A schema with another
// one is left to the library as a whole.
type judge struct {
	never bool // the schema false
	kinds kinds
	words []string // const and enum; nil: any
	ref   *judge

	object *objectJudge
	list   *listJudge
	text   *textJudge
	number *numberJudge

	not, cond, then, or *judge
	all, any, one       []*judge

	other *jsonschema.Schema
}

// kinds are types of values. None: every type.
type kinds uint8

const (
	kindObject kinds = 1 << iota
	kindList
	kindText
	kindBool
	kindInteger
	kindNumber
	kindNull
)

var kindNames = map[string]kinds{
	"object": kindObject, "array": kindList, "string": kindText, "boolean": kindBool,
	"integer": kindInteger, "number": kindNumber | kindInteger, "null": kindNull,
}

type objectJudge struct {
	required []string
	fields   map[string]*judge
	patterns []patternJudge
	rest     *judge // of other fields; nil: anything
}

type patternJudge struct {
	name  jsonschema.Regexp
	value *judge
}

type listJudge struct {
	least, most int // -1: no limit
	first       []*judge
	rest        *judge // of other items; nil: anything
}

type textJudge struct {
	least, most int // characters; -1: no limit
	pattern     jsonschema.Regexp
}

type numberJudge struct {
	least, most, above, below *big.Rat
	// Of whole numbers, where the limits are such too: from and to.
	whole    bool
	from, to int64
}

// accepts says whether a value is accepted. Numbers are a json.Number or an
// int64, and plain.
func (j *judge) accepts(v any) bool {
	if j == nil {
		return true
	}
	if j.other != nil {
		return j.other.Validate(v) == nil
	}
	if j.never || j.kinds != 0 && j.kinds&kindOfValue(v) == 0 {
		return false
	}
	if j.words != nil {
		if s, ok := v.(string); !ok || !slices.Contains(j.words, s) {
			return false
		}
	}
	return j.ref.accepts(v) && j.acceptsInside(v) && j.acceptsBeside(v)
}

// acceptsInside judges by what is asked of a value of its type.
func (j *judge) acceptsInside(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return j.object == nil || j.object.accepts(v)
	case []any:
		return j.list == nil || j.list.accepts(v)
	case string:
		return j.text == nil || j.text.accepts(v)
	case json.Number, int64:
		return j.number == nil || j.number.accepts(v)
	}
	return true
}

// acceptsBeside judges by the schemas that say something of each other.
func (j *judge) acceptsBeside(v any) bool {
	accepts := func(s *judge) bool { return s.accepts(v) }
	switch {
	case j.not != nil && j.not.accepts(v),
		!all(j.all, accepts),
		j.any != nil && !slices.ContainsFunc(j.any, accepts),
		j.one != nil && count1(j.one, accepts) != 1:
		return false
	case j.cond == nil:
		return true
	case j.cond.accepts(v):
		return j.then.accepts(v)
	}
	return j.or.accepts(v)
}

func all(js []*judge, accepts func(*judge) bool) bool {
	return !slices.ContainsFunc(js, func(j *judge) bool { return !accepts(j) })
}

func count1(js []*judge, accepts func(*judge) bool) (n int) {
	for _, j := range js {
		if accepts(j) {
			n++
		}
	}
	return n
}

func kindOfValue(v any) kinds {
	switch v := v.(type) {
	case map[string]any:
		return kindObject
	case []any:
		return kindList
	case string:
		return kindText
	case bool:
		return kindBool
	case int64:
		return kindInteger
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") { // plain: a fraction
			return kindNumber
		}
		return kindInteger
	case nil:
		return kindNull
	}
	return 0
}

func (j *objectJudge) accepts(v map[string]any) bool {
	for _, name := range j.required {
		if _, ok := v[name]; !ok {
			return false
		}
	}
	for name, value := range v {
		f, known := j.fields[name]
		if known && !f.accepts(value) {
			return false
		}
		for _, p := range j.patterns {
			if p.name.MatchString(name) {
				if known = true; !p.value.accepts(value) {
					return false
				}
			}
		}
		if !known && !j.rest.accepts(value) {
			return false
		}
	}
	return true
}

func (j *listJudge) accepts(v []any) bool {
	if len(v) < j.least || j.most >= 0 && len(v) > j.most {
		return false
	}
	for i, item := range v {
		of := j.rest
		if i < len(j.first) {
			of = j.first[i]
		}
		if !of.accepts(item) {
			return false
		}
	}
	return true
}

func (j *textJudge) accepts(v string) bool {
	if j.least >= 0 || j.most >= 0 {
		n := utf8.RuneCountInString(v)
		if n < j.least || j.most >= 0 && n > j.most {
			return false
		}
	}
	return j.pattern == nil || j.pattern.MatchString(v)
}

func (j *numberJudge) accepts(v any) bool {
	if j.whole {
		if i, ok := wholeNumber(v); ok {
			return j.from <= i && i <= j.to
		}
	}
	n := new(big.Rat)
	switch v := v.(type) {
	case int64:
		n.SetInt64(v)
	case json.Number:
		if _, ok := n.SetString(string(v)); !ok {
			return false
		}
	}
	return (j.least == nil || n.Cmp(j.least) >= 0) && (j.most == nil || n.Cmp(j.most) <= 0) &&
		(j.above == nil || n.Cmp(j.above) > 0) && (j.below == nil || n.Cmp(j.below) < 0)
}

// wholeNumber returns a number that is an int64.
func wholeNumber(v any) (n int64, ok bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case json.Number:
		n, err := strconv.ParseInt(string(v), 10, 64)
		return n, err == nil
	}
	return 0, false
}
