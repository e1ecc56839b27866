package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/utils/diff"
	"github.com/sergi/go-diff/diffmatchpatch"
)

const (
	// blameTimeout bounds one question about a line, with all that is fetched
	// for it.
	blameTimeout = 30 * time.Second
	// maxBlame bounds the commits that one question looks at.
	maxBlame = 50_000
	// diffTimeout bounds comparing two versions of a file; past it the answer
	// gets coarser, never wrong by more than a block of lines.
	diffTimeout = 2 * time.Second
)

// Blame is where a line comes from.
type Blame struct {
	Commit
	// Path and Line are those of the line in Commit: it may have moved since.
	Path string
	Line int
	Text string
	// Boundary says that the history that can be read ends at Commit: the line
	// is at least that old.
	Boundary bool
}

// Blame finds the commit that a line of a file comes from, as git blame does:
// lines count from 1; renames without change are followed. More of the history
// is brought here when it must be, within 30 s; when it cannot be, the answer
// is the oldest commit that is known to have the line, and says so. Errors:
// fs.ErrNotExist for a file or line that the commit does not have.
func (s *Source) Blame(ctx context.Context, sha, path string, line int) (Blame, error) {
	h, err := s.hash(sha)
	if err != nil {
		return Blame{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, blameTimeout)
	defer cancel()
	b := blamer{objs: s.repo.objects(), limit: s.cfg.Limits.FileSize, line: line}
	if b.at, err = b.version(h, cleanPath(path)); err != nil {
		return Blame{}, err
	}
	text := b.at.lines()
	if line < 1 || line > len(text) {
		return Blame{}, fmt.Errorf("%s has %d lines in commit %s, not line %d: %w", path, len(text), short(sha), line, fs.ErrNotExist)
	}
	boundary := false
	for n := 0; ; n++ {
		moved, err := b.step()
		switch {
		case n > maxBlame, ctx.Err() != nil:
			boundary = true
		case errors.Is(err, ErrMissing):
			more, derr := s.repo.deepen(ctx)
			if boundary = derr != nil || !more; !boundary {
				continue
			}
		case err != nil:
			return Blame{}, err
		case moved:
			continue
		}
		return Blame{Commit: commitOf(b.at.commit), Path: b.at.path, Line: b.line, Text: text[line-1], Boundary: boundary}, nil
	}
}

// version is a file in a commit.
type version struct {
	commit *object.Commit
	path   string
	blob   plumbing.Hash
	text   string
}

func (v version) lines() []string {
	list := strings.SplitAfter(v.text, "\n")
	if n := len(list); list[n-1] == "" {
		list = list[:n-1]
	}
	for i := range list {
		list[i] = strings.TrimSuffix(list[i], "\n")
	}
	return list
}

// blamer follows one line back.
type blamer struct {
	objs  *objects
	limit int64
	at    version
	line  int
}

func (b *blamer) version(h plumbing.Hash, path string) (version, error) {
	c, err := b.objs.commit(h)
	if err != nil {
		return version{}, err
	}
	v := version{commit: c, path: path}
	if v.blob, err = b.objs.entryAt(c, path); err != nil {
		return version{}, err
	}
	data, err := b.objs.blob(v.blob, b.limit)
	v.text = string(data)
	return v, err
}

// step moves to a parent that has the line; false when none has.
func (b *blamer) step() (bool, error) {
	var blobs []plumbing.Hash
	for _, p := range b.at.commit.ParentHashes { // a parent with the same file takes the whole blame
		parent, err := b.objs.commit(p)
		if err != nil {
			return false, err
		}
		blob, err := b.objs.entryAt(parent, b.at.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if blob == b.at.blob {
			b.at.commit = parent
			return true, nil
		}
		blobs = append(blobs, blob)
	}
	for i, p := range b.at.commit.ParentHashes {
		path := b.at.path
		if blobs[i].IsZero() {
			var err error
			if path, err = b.renamed(p); err != nil || path == "" {
				if err != nil {
					return false, err
				}
				continue
			}
		}
		was, err := b.version(p, path)
		if err != nil {
			return false, err
		}
		if n := lineBefore(was.text, b.at.text, b.line); n > 0 {
			b.at, b.line = was, n
			return true, nil
		}
	}
	return false, nil
}

// renamed finds the file of a parent that had the same content and is gone.
func (b *blamer) renamed(parent plumbing.Hash) (string, error) {
	c, err := b.objs.commit(parent)
	if err != nil {
		return "", err
	}
	changes, err := compare(b.objs.tree, c.TreeHash, b.at.commit.TreeHash)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(changes, func(c Change) bool { return c.Op == Removed && c.From == b.at.blob.String() })
	if i < 0 {
		return "", nil
	}
	return changes[i].Path, nil
}

// lineBefore is the number that a line of after had before; 0 when it is new.
func lineBefore(before, after string, line int) int {
	was, is := 1, 1
	for _, d := range diff.DoWithTimeout(before, after, diffTimeout) {
		n := strings.Count(d.Text, "\n")
		if !strings.HasSuffix(d.Text, "\n") {
			n++
		}
		switch d.Type {
		case diffmatchpatch.DiffDelete:
			was += n
		case diffmatchpatch.DiffInsert:
			if line < is+n {
				return 0
			}
			is += n
		default:
			if line < is+n {
				return was + line - is
			}
			was, is = was+n, is+n
		}
	}
	return 0
}
