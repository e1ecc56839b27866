// Package cli is what the writ command says to people: check, plan, diff,
// status, history, why, revert and bisect, as aligned text or JSON. The command
// itself only parses flags.
//
// It reads through a client.Reader with the rights of whoever asks, the
// viewer's are enough, and a local clone of the repository where there is one;
// it owns nothing and writes nothing.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/secret"
)

// Options say how to write.
type Options struct {
	JSON, Markdown bool
	Color          bool
	// Repository to speak of. Default "cluster".
	Repository string
	// Clone is the directory of a local clone; "": the one that the current
	// directory is in, if it is in one.
	Clone string
	// Path is the folder of the directory that the cluster follows. Default: what
	// the Repository says, or all of it.
	Path string
	// Servers asks for the servers of the cluster; nil: nobody asks.
	Servers func(context.Context) ([]Server, error)
	// Keys open what is encrypted; nil: it stays closed, and is compared by its
	// hash.
	Keys *secret.Keyring
	// Sandbox evaluates what a repository holds; nil: this process does.
	Sandbox *sandbox.Sandbox
}

func (o Options) repository() string {
	if o.Repository == "" {
		return "cluster"
	}
	return o.Repository
}

// ErrUsage is a question that cannot be answered as it is asked: a mistake on
// the command line.
var ErrUsage = errors.New("wrong usage")

type usage struct{ text string }

func (u usage) Error() string        { return u.text }
func (u usage) Is(target error) bool { return target == ErrUsage }

// Usage is an error that is ErrUsage.
func Usage(format string, args ...any) error { return usage{fmt.Sprintf(format, args...)} }

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
