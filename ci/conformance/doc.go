// Package conformance is the root of a module of its own: it builds upstream's
// kube-apiserver, e2e.test and agnhost, which the product never imports.
//
//	oracle    upstream's API server over an etcd in the process
//	upstream  the command that runs it; ci/differential records from it
//	suite     runs conformance specs and writes docs/conformance.md
//	image     packs agnhost for the node
//	e2e       names what upstream's specs import, so that go.mod stays tidy
//
// Staging modules are replaced by the versions that were released with v1.36.4;
// etcd is the product's, so that one data directory suits both.
package conformance
