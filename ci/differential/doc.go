// Package differential holds conversations recorded from Kubernetes' own API
// server, and the test that asks this project's server the same questions.
//
// testdata/*.txtar are the conversations (package exchange says how they are
// written); `go run ./record` in ci/conformance records them again. Where this
// server answers differently, testdata/differences says so and why; a line
// there that is no longer true fails the test, as does a difference that is
// not listed. `go test ./ci/differential -update` writes the list anew: what
// became equal goes, what differs comes in as "to do".
package differential
