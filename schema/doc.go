// Package schema says what an object is: the CUE definitions, the Go types,
// the resource table, the codecs and the validation. Everything that is known
// about a kind without looking at another object is here and only here.
//
// It watches nothing and owns nothing, and imports nothing else of ours.
package schema
