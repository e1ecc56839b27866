package render

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// oddNames is a file system of kustomize in which files and folders may have
// any name. That of kustomize itself refuses to make those with a space, a "+"
// and much else, which it reads where they are on a disk. Such a name has
// another inside, which is one of no file of the build.
type oddNames struct {
	filesys.FileSystem
	inside map[string]string // by name
	taken  map[string]bool
}

func newOddNames(files []File) *oddNames {
	o := &oddNames{FileSystem: filesys.MakeFsInMemory(), inside: map[string]string{}, taken: map[string]bool{}}
	for _, f := range files {
		for name := range strings.SplitSeq(f.Path, "/") {
			o.taken[name] = true
		}
	}
	return o
}

// usualName is what kustomize accepts as the name of a file that is made.
var usualName = regexp.MustCompile(`^[a-zA-Z0-9-_.:]*$`)

// to returns the path inside. What is one already stays as it is.
func (o *oddNames) to(p string) string {
	if usualName.MatchString(strings.ReplaceAll(p, "/", "")) {
		return p
	}
	names := strings.Split(p, "/")
	for i, name := range names {
		if usualName.MatchString(name) {
			continue
		}
		in := o.inside[name]
		for n := len(o.inside); in == ""; n++ {
			if in = "odd-" + strconv.Itoa(n); o.taken[in] {
				in = ""
			}
		}
		o.inside[name], o.taken[in] = in, true
		names[i] = in
	}
	return strings.Join(names, "/")
}

// from gives names inside a text their own form.
func (o *oddNames) from(text string) string {
	for name, in := range o.inside {
		text = regexp.MustCompile(`\b`+in+`\b`).ReplaceAllLiteralString(text, name)
	}
	return text
}

func (o *oddNames) Create(p string) (filesys.File, error) { return o.FileSystem.Create(o.to(p)) }

func (o *oddNames) Mkdir(p string) error { return o.FileSystem.Mkdir(o.to(p)) }

func (o *oddNames) MkdirAll(p string) error { return o.FileSystem.MkdirAll(o.to(p)) }

func (o *oddNames) RemoveAll(p string) error { return o.FileSystem.RemoveAll(o.to(p)) }

func (o *oddNames) Open(p string) (filesys.File, error) { return o.FileSystem.Open(o.to(p)) }

func (o *oddNames) IsDir(p string) bool { return o.FileSystem.IsDir(o.to(p)) }

func (o *oddNames) ReadDir(p string) ([]string, error) { return o.FileSystem.ReadDir(o.to(p)) }

func (o *oddNames) CleanedAbs(p string) (filesys.ConfirmedDir, string, error) {
	return o.FileSystem.CleanedAbs(o.to(p))
}

func (o *oddNames) Exists(p string) bool { return o.FileSystem.Exists(o.to(p)) }

func (o *oddNames) Glob(pattern string) ([]string, error) { return o.FileSystem.Glob(pattern) }

func (o *oddNames) ReadFile(p string) ([]byte, error) { return o.FileSystem.ReadFile(o.to(p)) }

func (o *oddNames) WriteFile(p string, data []byte) error {
	return o.FileSystem.WriteFile(o.to(p), data)
}

func (o *oddNames) Walk(p string, fn filepath.WalkFunc) error {
	return o.FileSystem.Walk(o.to(p), func(p string, info fs.FileInfo, err error) error { return fn(p, info, err) })
}
