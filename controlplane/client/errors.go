package client

import (
	"fmt"
	"slices"
)

func transactionErrorText(e *TransactionError) string {
	first := -1
	for i := range e.Errs {
		if first < 0 || i < first {
			first = i
		}
	}
	switch len(e.Errs) {
	case 0:
		return "transaction refused"
	case 1:
		return fmt.Sprintf("transaction refused: %v", e.Errs[first])
	}
	return fmt.Sprintf("transaction refused: %v (and %d more)", e.Errs[first], len(e.Errs)-1)
}

// Unwrap returns the refusals in the order of the ops.
func (e *TransactionError) Unwrap() []error {
	idx := make([]int, 0, len(e.Errs))
	for i := range e.Errs {
		idx = append(idx, i)
	}
	slices.Sort(idx)
	errs := make([]error, 0, len(idx))
	for _, i := range idx {
		errs = append(errs, e.Errs[i])
	}
	return errs
}
