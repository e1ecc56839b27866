// Package schema says what an object is: the CUE definitions, the Go types,
// the resource table, the codecs and the validation. Everything that is known
// about a kind without looking at another object is here and only here.
//
// It watches nothing and owns nothing, and imports nothing else of ours.
//
// The definitions are CUE (schema/cue); schema/gen writes from them the
// resource table, the JSON Schemas (schema/validate) and the static defaults
// (schema/defaults). After a change there: go generate ./schema
package schema

//go:generate go run k8s.io/code-generator/cmd/deepcopy-gen@v0.36.4 --go-header-file /dev/null --output-file zz_generated.deepcopy.go ./v1alpha1
//go:generate go run ./gen
