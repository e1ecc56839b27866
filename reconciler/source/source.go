// Package source reads the files of commits.
//
// It follows one branch, one tag, the newest tag in a range of versions, or one
// commit of one repository: the built-in remote or a directory on this machine,
// read in place, or a remote over HTTPS or SSH, of which it keeps a shallow
// clone below Config.Dir. History is brought here when a question needs it.
//
//	        remote                     local, built-in
//	advertised refs, pack              refs on the disk
//	          │                              │
//	        clone ──────── objects ──────────┘
//	                          │
//	             Commit, Tree (walk), Diff
//
// It owns Config.Dir and nothing else; it never writes to a repository that it
// reads in place. It promises that what it returns is whole: a commit is
// returned by Fetch only when all its files are here, and a repository that is
// empty, has lost the branch or the folder is an error that says what to do,
// never a tree without files. While the remote is away the last clone serves,
// also after a restart. What a remote sends is bounded before it is used, and a
// pack of it read by a child that may die of it: that is one failed fetch. No
// error or log line carries a credential.
package source

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/writ-os/writ/reconciler/sandbox"
)

// Commit is one Git commit.
type Commit struct {
	SHA     string
	Parent  string // first parent; "" for a root commit
	Author  string // Name <mail>
	Message string
	Time    time.Time
	// Rewritten says that the branch was reset, its last head being no ancestor
	// of this commit, or that the tag was moved.
	Rewritten bool
	// Tag is the tag that names the commit, where tags are followed, and
	// TagObject the SHA of the annotated tag; "" for a lightweight one.
	Tag, TagObject string
	// Stale says that the remote could not be asked: this is the last commit
	// that was fetched.
	Stale bool
}

// Config is everything a source needs from outside.
type Config struct {
	// URL is https://, http://, ssh://, git@host:path, file:// or a directory.
	// A repository on this machine is read in place, bare or not.
	URL string
	// Builtin is the directory of the built-in remote's bare repository; it is
	// read in place, without a clone. URL is not used then.
	Builtin string
	// Branch to follow. Default "main". Where several of the next four are
	// set, Commit goes before SemVer, SemVer before Tag, and Tag before Branch.
	Branch string
	// Tag to follow. One that is moved is followed, and the commit Rewritten.
	Tag string
	// SemVer is a range of versions, "~1.4": the newest tag in it is followed.
	SemVer string
	// Commit is the one commit to read, which must be in a branch or a tag.
	Commit string
	// Path below which files matter; it must exist in a commit. Default ".".
	Path string
	// Dir keeps the clone.
	Dir      string
	Interval time.Duration // between polls; default 15s, 1s for a directory
	Timeout  time.Duration // of one fetch; default 60s
	Auth     Auth
	Limits   Limits
	Log      *slog.Logger
	// Sandbox has the children in which the packs of a remote are read. Without it
	// this process reads them: for tests, and for what is read in place.
	Sandbox *sandbox.Sandbox
}

// Auth is how to show who we are, and to know who they are.
type Auth struct {
	Username, Password string
	BearerToken        string
	SSHKey             []byte // PEM; Password is its passphrase
	KnownHosts         []byte
	CA                 []byte // PEM
	ClientCert         []byte // PEM
	ClientKey          []byte // PEM
}

// repository is where the target lives.
type repository interface {
	// head asks for what the target names now; it is the tag where that is
	// annotated.
	head(ctx context.Context) (plumbing.Hash, error)
	// fetch asks for the commit of the target and makes its objects readable.
	fetch(ctx context.Context) (found, error)
	// last is what was fetched last, also by an earlier process; it does not
	// ask the remote.
	last(ctx context.Context) (found, bool)
	// deepen makes more of the history readable; false when there is no more.
	deepen(ctx context.Context) (bool, error)
	// bring makes an older commit readable, with all its files.
	bring(ctx context.Context, h plumbing.Hash) error
	// tidy does what is due while there is nothing to fetch.
	tidy(ctx context.Context) error
	objects() *objects
	close() error
}

// found is what a repository has for a target.
type found struct {
	head plumbing.Hash // the commit
	want plumbing.Hash // what names it: the commit, or an annotated tag
	tag  string
	// rewritten says, as long as the head stays, that the target was reset.
	rewritten bool
}

// Source follows one target of one repository. Its methods may be called from
// several goroutines.
type Source struct {
	cfg     Config
	repo    repository
	err     error // of the Config
	changed chan struct{}

	fetching sync.Mutex // one Fetch at a time

	mu   sync.Mutex
	seen answer // what the last Fetch or poll saw
}

// New returns a source; it reads nothing before Fetch. A Config that cannot
// work is reported by the methods.
func New(cfg Config) *Source {
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Limits = cfg.Limits.withDefaults()
	s := &Source{cfg: cfg, changed: make(chan struct{}, 1)}
	s.repo, s.err = s.open()
	return s
}

// open decides where the branch is read.
func (s *Source) open() (repository, error) {
	t, err := newTarget(s.cfg)
	if err != nil {
		return nil, err
	}
	if s.cfg.Builtin != "" {
		return newLocal(s.cfg.Builtin, t), nil
	}
	loc, err := parseURL(s.cfg.URL)
	if err != nil {
		return nil, err
	}
	if loc.scheme == "file" {
		return newLocal(loc.path, t), nil
	}
	r, err := newRemote(loc, t, s.cfg.Auth)
	if err != nil {
		return nil, err
	}
	if s.cfg.Dir == "" {
		return nil, problem(ErrConfig, "no directory is named to keep the clone of %s", loc.name)
	}
	return newClone(s.cfg, r, s.Notify), nil
}

// checkPath says whether the commit has the folder to follow.
func (s *Source) checkPath(head plumbing.Hash) error {
	t, err := s.tree(head)
	if err != nil {
		return err
	}
	return t.checkFolder(s.cfg.Path)
}

// Commit returns a commit that is here.
func (s *Source) Commit(sha string) (Commit, error) {
	h, err := s.hash(sha)
	if err != nil {
		return Commit{}, err
	}
	c, err := s.repo.objects().commit(h)
	if err != nil {
		return Commit{}, err
	}
	return commitOf(c), nil
}

// Tree returns the files of a commit that was fetched.
func (s *Source) Tree(sha string) (Tree, error) {
	h, err := s.hash(sha)
	if err != nil {
		return nil, err
	}
	t, err := s.tree(h)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (s *Source) tree(h plumbing.Hash) (*commitTree, error) {
	c, err := s.repo.objects().commit(h)
	if err != nil {
		return nil, err
	}
	return &commitTree{objects: s.repo.objects(), sha: h.String(), root: c.TreeHash, limits: s.cfg.Limits}, nil
}

// Diff compares two commits that were fetched; a may be "" for the empty tree.
// The changes are in the order of their paths. A file whose mode alone differs
// is modified.
func (s *Source) Diff(a, b string) ([]Change, error) {
	var from plumbing.Hash
	if a != "" {
		h, err := s.hash(a)
		if err != nil {
			return nil, err
		}
		c, err := s.repo.objects().commit(h)
		if err != nil {
			return nil, err
		}
		from = c.TreeHash
	}
	h, err := s.hash(b)
	if err != nil {
		return nil, err
	}
	c, err := s.repo.objects().commit(h)
	if err != nil {
		return nil, err
	}
	changes, err := compare(s.repo.objects().tree, from, c.TreeHash)
	if err != nil {
		return nil, fmt.Errorf("compare %s and %s: %w", a, b, err)
	}
	return changes, nil
}

func (s *Source) hash(sha string) (plumbing.Hash, error) {
	if s.err != nil {
		return plumbing.ZeroHash, s.err
	}
	if !plumbing.IsHash(sha) {
		return plumbing.ZeroHash, problem(ErrMissing, "%q is no commit", sha)
	}
	return plumbing.NewHash(sha), nil
}

// Beside returns a source that reads the same target in another repository on
// this machine, which has the objects of this one and more: a push that is not
// accepted yet. What is known of objects is common to both. A file of it can be
// read as long as either has its content.
func (s *Source) Beside(dir string) *Source {
	cfg := s.cfg
	cfg.Builtin = dir
	b := New(cfg)
	if s.err == nil && b.err == nil {
		b.repo.objects().join(s.repo.objects())
	}
	return b
}

// Close lets go of open files; the source may still be used. Only one that is
// dropped long before the process ends needs it.
func (s *Source) Close() error {
	if s.err != nil {
		return nil
	}
	s.repo.objects().leave()
	return s.repo.close()
}
