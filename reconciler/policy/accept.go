package policy

import (
	"encoding/json"
	"math/big"
	"regexp"
	"regexp/syntax"
)

// accept is a constraint as far as it can be told without CUE: a value that
// satisfies it certainly satisfies what was compiled into it; of any other CUE
// says whether, and why not. Nearly every object of a repository satisfies
// nearly every rule, and this answers in microseconds. It comes out of a child,
// so it is data, and what it costs is bounded.
type accept struct {
	Op      op
	Text    string   // of constant, bound and pattern
	Args    []accept // of all and some; the item of list
	Members []member // of structure
	made    matcher
}

// member is one field of a struct.
type member struct {
	Name     string
	Optional bool
	Accept   accept
}

type op uint8

const (
	never op = iota
	anything
	isString
	isBool
	isTrue
	isFalse
	constant   // a string
	pattern    // a string that matches
	notPattern // a string that does not
	greater    // integers
	greaterEqual
	less
	lessEqual
	all
	some
	structure
	list
)

const (
	// stepsPerObject bounds what quick answers may cost, in values that are
	// looked at, on an average of the objects of a unit.
	stepsPerObject = 20_000
	// maxAcceptDepth bounds the nesting of what is compiled.
	maxAcceptDepth = 16
	maxPattern     = 500   // letters of a pattern
	maxPatternSize = 2_000 // its parts, repetitions counted
	maxMatched     = 4096  // letters of a text that is matched
	maxDigits      = 100   // of a number that is compared
)

// matcher is what of an accept is made when it has arrived.
type matcher struct {
	re    *regexp.Regexp
	bound *big.Int
}

// ready prepares an accept for use; false: it is none that a child of ours
// makes.
func (a *accept) ready(depth int) bool {
	if depth > maxAcceptDepth {
		return false
	}
	for i := range a.Args {
		if !a.Args[i].ready(depth + 1) {
			return false
		}
	}
	for i := range a.Members {
		if !a.Members[i].Accept.ready(depth + 1) {
			return false
		}
	}
	switch a.Op {
	case pattern, notPattern:
		a.made.re = smallPattern(a.Text)
		return a.made.re != nil
	case greater, greaterEqual, less, lessEqual:
		a.made.bound = integer(a.Text)
		return a.made.bound != nil
	case list:
		return len(a.Args) == 1
	}
	return a.Op <= list
}

// smallPattern compiles a pattern; nil where it is one that would cost much.
func smallPattern(text string) *regexp.Regexp {
	if len(text) > maxPattern {
		return nil
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil || size(parsed) > maxPatternSize {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil
	}
	return re
}

// size is how many parts a pattern has when its repetitions are written out.
func size(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, s := range re.Sub {
		n = min(n+size(s), maxPatternSize+1)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxPatternSize+1)
}

func integer(text string) *big.Int {
	if len(text) > maxDigits {
		return nil
	}
	i, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil
	}
	return i
}

// satisfied says that a value certainly satisfies the constraint. Each value
// that is looked at is a step; where there are none left it is not certain.
func (a *accept) satisfied(v any, steps *int) bool {
	if *steps--; *steps < 0 {
		return false
	}
	switch a.Op {
	case anything:
		return true
	case isBool, isTrue, isFalse:
		b, ok := v.(bool)
		return ok && (a.Op == isBool || b == (a.Op == isTrue))
	case isString, constant, pattern, notPattern:
		s, ok := v.(string)
		return ok && a.text(s)
	case greater, greaterEqual, less, lessEqual:
		n, ok := v.(json.Number)
		return ok && a.number(n.String())
	case all, some:
		for i := range a.Args {
			if a.Args[i].satisfied(v, steps) != (a.Op == all) {
				return a.Op == some
			}
		}
		return a.Op == all
	case structure:
		o, ok := v.(map[string]any)
		return ok && a.fields(o, steps)
	case list:
		items, ok := v.([]any)
		for i := 0; ok && i < len(items); i++ {
			ok = a.Args[0].satisfied(items[i], steps)
		}
		return ok
	}
	return false
}

func (a *accept) text(s string) bool {
	switch a.Op {
	case constant:
		return s == a.Text
	case pattern, notPattern:
		return len(s) <= maxMatched && a.made.re.MatchString(s) == (a.Op == pattern)
	}
	return true
}

func (a *accept) number(text string) bool {
	i := integer(text)
	if i == nil {
		return false
	}
	switch c := i.Cmp(a.made.bound); a.Op {
	case greater:
		return c > 0
	case greaterEqual:
		return c >= 0
	case less:
		return c < 0
	}
	return i.Cmp(a.made.bound) <= 0
}

func (a *accept) fields(o map[string]any, steps *int) bool {
	for i := range a.Members {
		m := &a.Members[i]
		have, ok := o[m.Name]
		if !ok && !m.Optional || ok && !m.Accept.satisfied(have, steps) {
			return false
		}
	}
	return true
}
