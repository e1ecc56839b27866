// Package update brings a node to the operating system that its NodePool wants,
// and says how far it is.
//
//	writ.dev/desired-image ──> fetch ──> check ──> other slot ──> Staged
//	writ.dev/reboot        ──> switch ──> reboot ──> Trying ──┬──> good: Idle
//	                                                          └──> the loader falls back: Failed
//
// It watches the annotations of its own Node that the controller of node pools
// writes, the NodeImage that they name, the disk, and the health of the node. It
// owns the annotations by which the node answers (both sets are in
// schema/v1alpha1/annotations.go), the slot that does not run, the boot entries,
// and a directory with a download and a record of what it has tried.
//
// It promises that a node is not bricked, whatever fails: the slot that runs is
// never written, nothing is staged that was not proven by its digest and read
// back, a version that was never well is left by the loader after three tries, and
// what failed here is not tried again before it is ordered again. A copy that was
// damaged on the disk is no failure of its image: it is fetched again, unless that
// happens time and again. Every reason is one sentence in writ.dev/update-message.
package update
