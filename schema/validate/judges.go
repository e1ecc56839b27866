package validate

import (
	"math"
	"math/big"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// judges makes judges of compiled schemas, one of each.
type judges map[*jsonschema.Schema]*judge

// of returns the judge of a schema; nil for one that accepts everything.
func (all judges) of(s *jsonschema.Schema) *judge {
	if s == nil || s.Bool != nil && *s.Bool {
		return nil
	}
	if j, ok := all[s]; ok {
		return j
	}
	j := &judge{}
	all[s] = j // before what it refers to, which may refer back
	if s.Bool != nil {
		j.never = true
		return j
	}
	if s.Types != nil {
		for _, name := range s.Types.ToStrings() {
			j.kinds |= kindNames[name]
		}
	}
	words, ok := wordsOf(s)
	if !ok || uses(s) {
		*j = judge{other: s}
		return j
	}
	j.words, j.ref = words, all.of(s.Ref)
	j.object, j.list, j.text, j.number = all.object(s), all.list(s), all.text(s), all.number(s)
	j.not, j.cond, j.then, j.or = all.of(s.Not), all.of(s.If), all.of(s.Then), all.of(s.Else)
	j.all, j.any, j.one = all.each(s.AllOf), all.each(s.AnyOf), all.each(s.OneOf)
	return j
}

// uses says whether a schema has a keyword that a judge does not know.
func uses(s *jsonschema.Schema) bool {
	return s.RecursiveRef != nil || s.DynamicRef != nil || s.Format != nil || s.DraftVersion < 2020 ||
		s.MaxProperties != nil || s.MinProperties != nil || s.PropertyNames != nil || len(s.Dependencies) > 0 ||
		len(s.DependentRequired) > 0 || len(s.DependentSchemas) > 0 || s.UnevaluatedProperties != nil ||
		s.UniqueItems || s.Contains != nil || s.Items != nil || s.AdditionalItems != nil || s.UnevaluatedItems != nil ||
		s.ContentEncoding != nil || s.ContentMediaType != nil || s.ContentSchema != nil || s.MultipleOf != nil || len(s.Extensions) > 0 ||
		s.Not != nil && s.Not.Bool != nil || s.If != nil && s.If.Bool != nil
}

// wordsOf returns the words of const and enum; false where a value is no word.
func wordsOf(s *jsonschema.Schema) (words []string, ok bool) {
	var values []any
	switch {
	case s.Const != nil && s.Enum != nil:
		return nil, false
	case s.Const != nil:
		values = []any{*s.Const}
	case s.Enum != nil:
		values = s.Enum.Values
	default:
		return nil, true
	}
	words = make([]string, len(values))
	for i, v := range values {
		if words[i], ok = v.(string); !ok {
			return nil, false
		}
	}
	return words, true
}

func (all judges) each(schemas []*jsonschema.Schema) []*judge {
	var out []*judge
	for _, s := range schemas {
		out = append(out, all.of(s))
	}
	return out
}

func (all judges) object(s *jsonschema.Schema) *objectJudge {
	if len(s.Required) == 0 && s.Properties == nil && s.PatternProperties == nil && s.AdditionalProperties == nil {
		return nil
	}
	j := &objectJudge{required: s.Required, fields: make(map[string]*judge, len(s.Properties))}
	for name, f := range s.Properties {
		j.fields[name] = all.of(f)
	}
	for name, v := range s.PatternProperties {
		j.patterns = append(j.patterns, patternJudge{name, all.of(v)})
	}
	switch rest := s.AdditionalProperties.(type) {
	case bool:
		if !rest {
			j.rest = nothing
		}
	case *jsonschema.Schema:
		j.rest = all.of(rest)
	}
	return j
}

// nothing accepts nothing.
var nothing = &judge{never: true}

func (all judges) list(s *jsonschema.Schema) *listJudge {
	if s.MinItems == nil && s.MaxItems == nil && s.PrefixItems == nil && s.Items2020 == nil {
		return nil
	}
	return &listJudge{least: limit(s.MinItems), most: limit(s.MaxItems), first: all.each(s.PrefixItems), rest: all.of(s.Items2020)}
}

func (judges) text(s *jsonschema.Schema) *textJudge {
	if s.MinLength == nil && s.MaxLength == nil && s.Pattern == nil {
		return nil
	}
	return &textJudge{least: limit(s.MinLength), most: limit(s.MaxLength), pattern: s.Pattern}
}

func (judges) number(s *jsonschema.Schema) *numberJudge {
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil {
		return nil
	}
	j := &numberJudge{least: s.Minimum, most: s.Maximum, above: s.ExclusiveMinimum, below: s.ExclusiveMaximum, from: math.MinInt64, to: math.MaxInt64}
	j.whole = j.above == nil && j.below == nil && whole(j.least, &j.from) && whole(j.most, &j.to)
	return j
}

// whole stores a limit; false for one that is no int64.
func whole(limit *big.Rat, in *int64) bool {
	if limit == nil {
		return true
	}
	*in = limit.Num().Int64()
	return limit.IsInt() && limit.Num().IsInt64()
}

func limit(n *int) int {
	if n == nil {
		return -1
	}
	return *n
}
