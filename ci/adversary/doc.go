// Package adversary attacks a cluster as those do who have something of it: the
// token of a node, a node, a namespace, a pod, or the right to push. The
// servers are real ones, in this process: TLS, etcd on disk, controllers, HTTP.
// Nothing is known to an adversary but what its place gives it.
//
// Each adversary is a test that makes attempts and prints them as a table. An
// attempt has one expected result; both what must be refused and what an honest
// holder of the same credential needs are attempted, so that a cluster that
// refuses everything fails, too. `make adversary` runs them all.
package adversary
