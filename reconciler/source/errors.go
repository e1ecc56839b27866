package source

import (
	"errors"
	"fmt"
)

// What may be wrong with a repository. The errors of Fetch, Tree and Walk wrap
// one of these where a caller may want to branch; their own text says what was
// seen and what to do.
var (
	ErrConfig      = errors.New("the repository's address or credentials cannot be used")
	ErrUnreachable = errors.New("the repository cannot be reached")
	ErrCredentials = errors.New("the repository does not accept the credentials")
	ErrHostKey     = errors.New("the repository's host is not known")
	ErrNoRepo      = errors.New("there is no repository")
	ErrEmpty       = errors.New("the repository has no files")
	ErrNoBranch    = errors.New("the branch does not exist")
	ErrNoTag       = errors.New("the tag does not exist")
	ErrNoCommit    = errors.New("the commit is in no branch or tag")
	ErrTooLarge    = errors.New("the repository is too large")
	ErrNoPath      = errors.New("the folder does not exist")
	ErrMissing     = errors.New("the commit is not here")
	ErrUnsupported = errors.New("the repository has a format that is not supported")
)

// told is an error whose text is for the operator; kind is one of the above.
type told struct {
	kind error
	text string
}

func problem(kind error, format string, args ...any) error {
	return &told{kind, fmt.Sprintf(format, args...)}
}

func (e *told) Error() string { return e.text }
func (e *told) Unwrap() error { return e.kind }

// FileError is one file that cannot be accepted, for the commit's findings.
type FileError struct {
	Path    string
	Rule    string // TooLarge, Symlink, Submodule, LFSPointer, TooMany, BadName
	Message string
	// Partial says that the walk has ended here: what follows was not seen, and
	// the tree must not be taken for all that there is.
	Partial bool
}

// Error implements error.
func (e *FileError) Error() string { return e.Path + ": " + e.Message }
