// Package v1alpha1 holds our own API group, writ.dev/v1alpha1: what a cluster
// says about the Git repositories it follows, and about the operating system of
// its nodes. People declare Cluster, Repository, NodePool and NodeImage in Git.
// The status of NodePool and NodeImage is the nodepool controller's, that of
// the others the reconciler's.
//
// +k8s:deepcopy-gen=package
// +groupName=writ.dev
package v1alpha1
