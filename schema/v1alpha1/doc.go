// Package v1alpha1 holds our own API group, writ.dev/v1alpha1: what a cluster
// says about the Git repositories it follows. Only the reconciler writes
// these kinds' status; people declare Cluster and Repository in Git.
//
// +k8s:deepcopy-gen=package
// +groupName=writ.dev
package v1alpha1
