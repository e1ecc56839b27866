// Package members is what several servers know of each other, and how they keep
// the built-in repository together.
//
// It watches the leases of the servers, the members of the store, and where the
// branches are. It owns those leases (kube-system/writ-server-*) and the record
// of the refs. It promises that a push which was answered is on most of the
// servers and in the store; that no two servers serve different tips of a branch;
// and that nobody moves a branch but by a push: no API serves the record.
//
// What to do is decided by pure functions (plan.go, departed.go); Roll and
// Replica ask and act.
package members
