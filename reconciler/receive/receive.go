// Package receive is the built-in Git remote.
package receive

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
)

// Config is everything the remote needs from outside.
type Config struct {
	// Dir holds the repositories: <Dir>/<name>.git.
	Dir string
	// Names are the repositories served.
	Names []string
	// Branch is the branch HEAD names and that only moves forward. Default main.
	Branch string
	// AllowForce lets pushes rewrite and delete Branch.
	AllowForce bool
	// MaxPack bounds the size of a push. Default 256 MiB.
	MaxPack int64
	// Check decides on one ref of a push before anything is visible. Its lines
	// are shown to the pusher; an error refuses the push.
	Check func(ctx context.Context, p Push) (lines []string, err error)
	// Pushed is called after a ref was moved.
	Pushed func(repository, ref, sha string)
	Log    *slog.Logger
}

// Push is one ref that someone wants to move.
type Push struct {
	Repository string
	Ref        string
	Old, New   string // SHA; "" for none
	User       string
	// Dir is a bare repository in which both commits can be read while Check
	// runs.
	Dir string
}

// Remote serves the repositories.
type Remote struct{ cfg Config }

// New returns a remote; it touches no file before Open.
func New(cfg Config) *Remote { return &Remote{cfg: cfg} }

// Open makes the repositories that do not exist and clears what a crash left.
func (r *Remote) Open() error { return fmt.Errorf("open") }

// RepoDir is the directory of a repository.
func (r *Remote) RepoDir(name string) string { return "" }

// Seed makes the first commit of a repository from files, if it is empty.
func (r *Remote) Seed(name string, files fs.FS, message string) (sha string, err error) {
	return "", fmt.Errorf("seed")
}

// ServeHTTP serves /git/<name>.git/... The context of a request carries the
// user (k8s.io/apiserver/pkg/endpoints/request).
func (r *Remote) ServeHTTP(w http.ResponseWriter, req *http.Request) {}
