// Package registry holds the rules of every kind: what a write may change and
// what the server adds to it. All writes of the cluster go through it, those of
// kubectl as well as those of controllers and of the reconciler.
//
//	request ──> patch/apply ──> defaults ──> rules of the kind ──> Mutate
//	   ──> fields (managedFields, generation) ──> validation ──> Validate ──> store.Txn
//
// It owns no data: objects live in the store, and what it keeps besides
// (allocated addresses and ports) is built from the store at start.
//
// It promises that an object is stored only after admission and validation,
// that status and spec are changed through their own doors, that a write whose
// resourceVersion is old is refused, and that Transact stores all or nothing.
// Errors are those of k8s.io/apimachinery/pkg/api/errors with upstream's texts.
package registry
