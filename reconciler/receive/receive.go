// Package receive is the built-in Git remote: smart HTTP over bare
// repositories, spoken by the stock git client, with no git binary here.
//
// Owns <Dir>/<name>.git, <Dir>/.incoming and <Dir>/.mirror. Watches the remotes
// that it pulls from.
//
//	                               child process
//	push ──> .incoming/<push>/ ──> bounds, connectivity ──> Check ──┬─> refused: the folder is removed
//	         pack, index, links    │ asks what is here              └─> accepted: pack ──> ref ──> Pushed
//	         to what is there <────┘
//
// Promises: what a push brings is invisible until Check accepted it and the
// ref moved; a ref moves only from the value the pusher saw, and the followed
// branch only forward; an accepted push is on disk (fsync) before the client
// hears ok; every object in a repository has everything it refers to; after a
// crash Open finds the state before or after each push and clears the rest; a
// client is sent only what it may fetch and what a ref leads to; what a pack does
// to whoever reads it, it does to a child: one push is refused.
//
// A client that asks for protocol version 2 is answered with version 0, which
// every client understands.
package receive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/source"
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
	// Protected are further refs that only move forward and stay, as Rule.Refs
	// names them.
	Protected []string
	// Rules say who may push what; asked for each push, it must be quick. Without
	// it, or while it returns nil, the groups writ:pushers and system:masters
	// may push everything.
	Rules func(repository string) []Rule
	// MayFetch says who else may fetch a repository besides the groups writ:pushers
	// and system:masters and whom Rules name; asked for each request, it must be
	// quick. Without it the group writ:viewers may.
	MayFetch func(ctx context.Context, repository string, u user.Info) bool
	// Credentials reads what a Mirror names, before each exchange; it must be
	// quick. An error is a failure of the mirror, and tried again as any.
	Credentials func(name string) (source.Auth, error)
	// Mirrored is called after each exchange of a mirror; it must be quick.
	Mirrored func()
	// Keep are further commits of a repository that are not collected as
	// garbage, such as the applied one after its branch was rewritten.
	Keep func(repository string) []string
	// Grace is how long an object stays that nothing refers to. Default 24h.
	Grace time.Duration
	// MaxPack bounds the size of a push. Default 256 MiB.
	MaxPack int64
	// MaxObjects bounds the objects of a push. Default 500,000.
	MaxObjects int64
	// MaxObject bounds one file of a push, which is held in memory when it is
	// sent to who clones. Default 64 MiB.
	MaxObject int64
	// Check decides on one ref of a push before anything is visible. Its lines
	// are shown to the pusher; an error refuses the push.
	Check func(ctx context.Context, p Push) (lines []string, err error)
	// Commit is called with all refs after a push has moved some, before the
	// pusher hears of it: other servers are to keep it too. An error is what the
	// pusher hears; the refs become those that come with it, if any do.
	Commit func(ctx context.Context, repository string, refs map[string]string) (adopt map[string]string, err error)
	// Pushed is called after a ref was moved.
	Pushed func(repository, ref, sha string)
	// Sandbox has the children in which packs are read. Without it this process
	// reads them: for tests.
	Sandbox *sandbox.Sandbox
	Log     *slog.Logger
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

// Remote serves the repositories. Its methods may be called from several
// goroutines once Open has returned.
type Remote struct {
	cfg   Config
	repos map[string]*repository

	fetching, pushing seats

	mirrorsMu sync.Mutex
	mirrors   []*mirror     // as SetMirrors wants them
	mirroring chan struct{} // has Run look at them
}

// incoming is the folder of unfinished work. It is on the file system of the
// repositories, so that finished work moves out of it by rename.
const incoming = ".incoming"

var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)

// New returns a remote; it touches no file before Open.
func New(cfg Config) *Remote {
	if cfg.Branch == "" {
		cfg.Branch = "main"
	}
	if cfg.MaxPack == 0 {
		cfg.MaxPack = 256 << 20
	}
	if cfg.MaxObjects == 0 {
		cfg.MaxObjects = 500_000
	}
	if cfg.Grace == 0 {
		cfg.Grace = 24 * time.Hour
	}
	if cfg.MaxObject == 0 {
		cfg.MaxObject = 64 << 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Credentials == nil {
		cfg.Credentials = func(name string) (source.Auth, error) {
			return source.Auth{}, fmt.Errorf("the credentials %s are not known here", name)
		}
	}
	if cfg.Mirrored == nil {
		cfg.Mirrored = func() {}
	}
	r := &Remote{cfg: cfg, repos: make(map[string]*repository), mirroring: make(chan struct{}, 1)}
	for _, name := range cfg.Names {
		r.repos[name] = &repository{name: name, dir: r.RepoDir(name), incoming: filepath.Join(cfg.Dir, incoming)}
	}
	return r
}

// Open makes the repositories that do not exist and clears what a crash left.
// No push may be under way.
func (r *Remote) Open() error {
	in := filepath.Join(r.cfg.Dir, incoming)
	if err := os.RemoveAll(in); err != nil {
		return fmt.Errorf("clear unfinished pushes: %w", err)
	}
	if err := os.MkdirAll(in, 0o700); err != nil {
		return fmt.Errorf("make folder of pushes: %w", err)
	}
	for name, repo := range r.repos {
		if !validName.MatchString(name) {
			return fmt.Errorf("open repository %q: a name consists of letters, digits, '.', '_' and '-'", name)
		}
		if err := repo.open(r.branch()); err != nil {
			return fmt.Errorf("open repository %s: %w", name, err)
		}
	}
	return nil
}

// RepoDir is the directory of a repository.
func (r *Remote) RepoDir(name string) string { return filepath.Join(r.cfg.Dir, name+".git") }

// branch is the full name of the followed branch.
func (r *Remote) branch() string { return "refs/heads/" + r.cfg.Branch }

// exists says whether there is something at path.
func exists(path string) (bool, error) {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, err
	}
}
