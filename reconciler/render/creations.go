package render

import (
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/writ-os/writ/reconciler/secret"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// maxCreations bounds a file of rules for sops.
const maxCreations = 1 << 20

// creations reads the rules by which sops encrypts files, and says what is wrong
// with them: a Secret in plain text that they are about is told of.
func (s *Scanned) creations(files []File) ([]v1alpha1.Finding, error) {
	above, err := s.above(secret.RulesFile)
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	var of []File
	for _, f := range slices.Concat(above, files) {
		if path.Base(f.Path) != secret.RulesFile || f.Mode.Type() != 0 || f.Size > maxCreations {
			continue
		}
		data, err := f.read(maxCreations)
		if err != nil {
			return nil, err
		}
		found[f.Path], of = data, append(of, f)
	}
	if len(found) == 0 {
		return nil, nil
	}
	rules, findings := secret.ParseRules(found)
	s.opts.creations, s.sealing = rules, hashFiles(of)
	return findings, nil
}

// above are the files of a name in the folders above the one that is followed,
// up to that of the repository.
func (s *Scanned) above(name string) ([]File, error) {
	root, followed := s.tree.(Rooted)
	outside, asks := s.tree.(Outside)
	if !followed || !asks {
		return nil, nil
	}
	var out []File
	for dir := path.Clean(root.Root()); dir != "." && dir != "/"; {
		dir = path.Dir(dir)
		f, err := outside.File(path.Join(dir, name))
		var bad *FileError
		switch {
		case err == nil:
			out = append(out, f)
		case !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &bad): // what is no file is nothing that sops reads
			return nil, err
		}
	}
	return out, nil
}
