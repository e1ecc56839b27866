// Package e2e tells the story of a commit on real parts: real git and kubectl,
// etcd on disk, containerd, and kernel networking in a network namespace that
// the test makes and removes. Build tag: e2e. As root.
package e2e
