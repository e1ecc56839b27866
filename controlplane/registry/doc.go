// Package registry holds the rules of every kind: what a write may change and
// what the server adds to it. All writes of the cluster go through it, those of
// kubectl as well as those of controllers and of the reconciler.
//
//	request ──> patch or apply ──> defaults ──> managedFields ──> Mutate (admission)
//	   ──> rule of the kind: the door, generation, status ──> validation: metadata,
//	       rule, schema ──> allocation ──> Validate (admission) ──> store.Txn
//
// A write works on an overlay: the newest state of the store, and over it what
// the transaction has done so far. One write is a transaction of one. When
// somebody else was faster it is done again over the newer state.
//
// It owns no data: objects live in the store, and what it keeps besides
// (allocated addresses and ports) is read from the store at the first use.
//
// It promises that an object is stored only after admission and validation,
// that status and spec are changed through their own doors, that a write whose
// resourceVersion is old is refused, that a write which changes nothing is not
// stored, and that Transact stores all or nothing. Errors are those of
// k8s.io/apimachinery/pkg/api/errors with upstream's texts.
//
// What a kind is by itself is in schema/kind; steps.go has what it needs besides.
package registry
