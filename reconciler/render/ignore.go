package render

import (
	"path"
	"strings"
)

// ignores are the patterns of a .writignore file at the root of the tree: a
// path, a folder ("charts/"), or a pattern of path.Match for a whole path or,
// without a slash, for a name anywhere. "#" begins a comment.
type ignores []string

func readIgnore(files []File) (ignores, error) {
	for _, f := range files {
		if path.Base(f.Path) != ignoreFile || strings.Contains(f.Path, "/") {
			continue
		}
		data, err := f.read(1 << 16)
		if err != nil {
			return nil, err
		}
		return parseIgnore(string(data)), nil
	}
	return nil, nil
}

func parseIgnore(text string) ignores {
	var out ignores
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "/")
		if line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out
}

func (ig ignores) match(p string) bool {
	for _, pattern := range ig {
		if folder, ok := strings.CutSuffix(pattern, "/"); ok {
			if strings.HasPrefix(p, folder+"/") || !strings.Contains(folder, "/") && strings.Contains("/"+p, "/"+folder+"/") {
				return true
			}
			continue
		}
		subject := p
		if !strings.Contains(pattern, "/") {
			subject = path.Base(p)
		}
		if ok, err := path.Match(pattern, subject); ok && err == nil || p == pattern {
			return true
		}
	}
	return false
}
