package store

import (
	"errors"
	"fmt"

	"github.com/writ-os/writ/schema"
)

var errTruncated = errors.New("data is truncated")

// ErrNoSpace refuses writes while the disk or the quota of etcd is full. Reads
// and deletes go on.
var ErrNoSpace = errors.New("no space left")

// ErrNotKept is the error of writes and watches of a resource that the store
// does not keep, or no longer: it ends the watches of one that is removed.
var ErrNotKept = errors.New("resource is not kept")

// ErrUnknownOutcome says that etcd did not answer in time: the transaction may
// be stored or not. Read again before the next try.
var ErrUnknownOutcome = errors.New("outcome of the transaction is unknown")

// ErrUnavailable says that the majority of the servers, or etcd's ear, cannot be
// reached now. Nothing of a transaction was stored; what would be read may be
// old. It passes by itself.
var ErrUnavailable = errors.New("store is unavailable")

// ConflictError says that the precondition of a write did not hold. Nothing of
// the transaction was stored, and the copy has reached the state that refused.
type ConflictError struct {
	// Index of the write, of the first if there are several.
	Index    int
	Resource *schema.Resource
	Key      schema.Key
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%v %v has changed", e.Resource, e.Key)
}

// TooLargeError refuses a transaction that is larger than etcd should take.
type TooLargeError struct{ Writes, MaxWrites, Bytes, MaxBytes int }

// Error implements error.
func (e *TooLargeError) Error() string {
	if e.Writes > e.MaxWrites {
		return fmt.Sprintf("transaction of %d writes is too large: at most %d fit one transaction", e.Writes, e.MaxWrites)
	}
	return fmt.Sprintf("transaction of %.1f MiB is too large: at most %.1f MiB fit one transaction",
		float64(e.Bytes)/(1<<20), float64(e.MaxBytes)/(1<<20))
}
