package receive

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/writ-os/writ/controlplane/durable"
)

// ref is a name and the object it points to.
type ref struct{ name, sha string }

var validSHA = regexp.MustCompile(`^[0-9a-f]{40}$`)

// zeroSHA stands for "no object" on the wire.
const zeroSHA = "0000000000000000000000000000000000000000"

// notUTF8 is why a name cannot be pushed to that git itself would take: several
// servers keep refs as JSON, which would give it another name, or that of
// another ref.
const notUTF8 = "the name of the ref is not valid UTF-8"

// checkRefName returns why a name cannot be pushed to, or "". The rules are
// git's own for ref names, within branches, tags and notes; and it is UTF-8.
func checkRefName(name string) string {
	ok := false
	for _, p := range []string{"refs/heads/", "refs/tags/", "refs/notes/"} {
		ok = ok || strings.HasPrefix(name, p) && len(name) > len(p)
	}
	switch {
	case !ok:
		return "only refs/heads/, refs/tags/ and refs/notes/ can be pushed"
	case len(name) > 250, strings.ContainsAny(name, " ~^:?*[\\\x7f"), strings.Contains(name, ".."),
		strings.Contains(name, "@{"), strings.HasSuffix(name, "."):
		return "funny refname"
	case !utf8.ValidString(name):
		return notUTF8
	}
	for _, c := range name {
		if c < 0x20 {
			return "funny refname"
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return "funny refname"
		}
	}
	return ""
}

// readRefs returns the refs of a repository by name: the loose ones, over
// the packed ones. The caller holds the repository's lock.
func readRefs(dir string) (map[string]string, error) {
	refs := make(map[string]string)
	if err := readPackedRefs(dir, refs); err != nil {
		return nil, err
	}
	root := filepath.Join(dir, "refs")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sha := strings.TrimSpace(string(b))
		if !validSHA.MatchString(sha) {
			return nil // symbolic, or not a ref at all
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		refs[filepath.ToSlash(name)] = sha
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read refs: %w", err)
	}
	return refs, nil
}

func readPackedRefs(dir string, into map[string]string) error {
	f, err := os.Open(filepath.Join(dir, "packed-refs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read packed refs: %w", err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if sha, name, ok := strings.Cut(s.Text(), " "); ok && validSHA.MatchString(sha) {
			into[name] = sha
		}
	}
	return s.Err()
}

// sortRefs lists refs in the order of an advertisement.
func sortRefs(m map[string]string) []ref {
	refs := make([]ref, 0, len(m))
	for name, sha := range m {
		refs = append(refs, ref{name, sha})
	}
	sort.Slice(refs, func(i, j int) bool { return refs[i].name < refs[j].name })
	return refs
}

// writeRef points a ref at an object, all or nothing, on disk on return.
func (repo *repository) writeRef(name, sha string) error {
	path := filepath.Join(repo.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := repo.replace(path, sha+"\n"); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// replace writes a file of the repository, in which no other names may appear.
func (repo *repository) replace(path, content string) error {
	return durable.WriteVia(repo.incoming, path, 0o644, func(f *os.File) error {
		_, err := f.WriteString(content)
		return err
	})
}

// deleteRef removes a ref, packed and loose.
func (repo *repository) deleteRef(name string) error {
	packed := make(map[string]string)
	if err := readPackedRefs(repo.dir, packed); err != nil {
		return err
	}
	if _, ok := packed[name]; ok {
		delete(packed, name)
		var b strings.Builder
		for _, r := range sortRefs(packed) {
			fmt.Fprintf(&b, "%s %s\n", r.sha, r.name)
		}
		if err := repo.replace(filepath.Join(repo.dir, "packed-refs"), b.String()); err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	path := filepath.Join(repo.dir, filepath.FromSlash(name))
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	if err := durable.Sync(repo.dir); err != nil {
		return err
	}
	err := durable.Sync(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was packed only
	}
	// An empty folder a would be in the way of a branch a.
	for d := filepath.Dir(path); strings.Count(d[len(repo.dir):], string(filepath.Separator)) > 2; d = filepath.Dir(d) {
		if os.Remove(d) != nil {
			break // not empty
		}
	}
	return err
}
