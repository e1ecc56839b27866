// Package podset is what the controllers of workloads have in common: which
// pods belong to an owner, which of them count, which to end first, and how to
// create and delete many of them.
//
// It watches nothing of itself and owns nothing. It promises that an owner
// whose view of the cluster lags behind its own writes is told so (Pending),
// so that it never creates a pod twice.
package podset
