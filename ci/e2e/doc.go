// Package e2e tells the story of a commit on real parts: real git and kubectl,
// etcd on disk, containerd, and kernel networking in a network namespace that
// the test makes and removes. Build tag: e2e. As root.
//
// TestStory is the way of a commit down to its containers, TestGitOps what a
// cluster does with its repositories, with nodes that are simulated; what there
// is outside of the cluster (git's own server, a forge, a receiver of
// notifications) is behind the address of one hub.
package e2e
