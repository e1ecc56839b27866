// Package controller runs reconcilers: a queue, one key at a time, back-off,
// metrics and a panic guard. What a reconciler decides is its own affair; when
// and how often it is asked, and what happens to its errors, is decided here.
package controller

import (
	"context"
	"errors"
	"time"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Reconciler brings one key to where it should be. It does not care which
// event woke it, and is never called for the same key twice at a time.
//
// Returning an error asks for a retry with back-off (5 ms doubling to 16 m, as
// upstream); an error made by Terminal is reported and not tried again until
// the next event. Result.RequeueAfter asks for a call later without an error.
type Reconciler interface {
	Reconcile(ctx context.Context, key schema.Key) (Result, error)
}

// Result says when to call again without an event: never for 0, at once for a
// time that is past. Who asks for that again and again without having written
// or heard of anything is held back (package pace).
type Result struct{ RequeueAfter time.Duration }

// Watch says which events of a resource wake which keys. A nil Map means the
// key of the object itself. The first watch of a reconciler is that of the
// objects whose keys it is called with.
type Watch struct {
	Resource *schema.Resource
	Map      func(client.Event) []schema.Key
}

// ErrTerminal marks errors that no retry will mend.
var ErrTerminal = errors.New("terminal")

type terminal struct{ error }

func (t terminal) Is(target error) bool { return target == ErrTerminal }
func (t terminal) Unwrap() error        { return t.error }

// Terminal marks an error as one that no retry will mend.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return terminal{err}
}
