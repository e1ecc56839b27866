// Package charts holds the API server to what Helm 4 and Kustomize expect of it,
// as the Go libraries that other tools embed. It is a module of its own: Helm's
// actions bring database drivers and a WebAssembly runtime, which the product
// has no use for. The tests run against bin/writ; there is no code.
package charts
