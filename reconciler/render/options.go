package render

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/secret"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Options say how a tree is read.
type Options struct {
	// Variables are the values of ${name} in manifests, and of the @tag
	// attributes of CUE packages. nil: text is left as it is.
	Variables map[string]string
	// Kinds finds a kind that is not built in; nil: there is none.
	Kinds func(kschema.GroupVersionKind) *schema.Resource
	// KindsHash changes when Kinds answers otherwise than before.
	KindsHash string
	// Open turns what a file holds into what is rendered, line by line: it
	// decrypts. nil: files are as they are.
	Open func(path string, data []byte) Opened
	// Sandbox evaluates CUE packages, builds kustomizations and renders charts
	// within bounds of time and memory; nil: that is done in this process, within
	// a time.
	Sandbox *sandbox.Sandbox
	// Memory remembers what a file refers to, from one Scan to the next.
	Memory *Memory

	creations *secret.Rules // of the tree
}

// hash is the part of a unit's hash that options change.
func (o *Options) hash() string {
	if o.Variables == nil && o.KindsHash == "" {
		return ""
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(o.Variables)) {
		fmt.Fprintf(h, "%q %q\n", name, o.Variables[name])
	}
	fmt.Fprintf(h, "%s", o.KindsHash)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Opened is a file as it is rendered.
type Opened struct {
	Data []byte
	// Sealed says that the file was encrypted. Masked says that it still is:
	// its values mean nothing, and Opaque that even its shape is not known.
	Sealed, Masked, Opaque bool
	// Findings keep the file out.
	Findings []v1alpha1.Finding
	// Redact takes what was decrypted out of findings.
	Redact func([]v1alpha1.Finding) []v1alpha1.Finding
}

// open applies Open.
func (out *Rendered) open(path string, data []byte) Opened {
	o := Opened{Data: data}
	if u := out.unit; u != nil && u.opts != nil && u.opts.Open != nil {
		o = u.opts.Open(path, data)
	}
	out.note(path, o)
	return o
}

// note says what an opened file means for the unit.
func (out *Rendered) note(path string, o Opened) {
	if u := out.unit; !o.Sealed && u != nil && u.opts != nil {
		out.Plain = append(out.Plain, u.opts.creations.Check(path, o.Data)...)
	}
	if o.Sealed {
		out.sealed, out.masked = true, out.masked || o.Masked
		out.redact = append(out.redact, o.Redact)
	}
}

// Redact takes what was decrypted out of findings about the unit.
func (out *Rendered) Redact(findings []v1alpha1.Finding) []v1alpha1.Finding {
	for _, redact := range out.redact {
		if redact != nil {
			findings = redact(findings)
		}
	}
	return findings
}

// seal marks the manifests of an encrypted unit. Their hashes are made of the
// encrypted file, so that nobody can try out values against them.
func (out *Rendered) seal() {
	if !out.sealed {
		return
	}
	for i := range out.Manifests {
		m := &out.Manifests[i]
		m.Sealed, m.Masked = true, out.masked
		m.Hash = secret.ObjectHash(out.unit.Hash, i)
	}
}

// kind finds the resource of a manifest; nil: there is none.
func (o *Options) kind(gvk kschema.GroupVersionKind) *schema.Resource {
	if r := schema.ByGVK(gvk); r != nil || o == nil || o.Kinds == nil {
		return r
	}
	return o.Kinds(gvk)
}

// Memory remembers what the last Read of a tree has found, so that the next
// costs what has changed since; and which releases files declare, by the hash
// of their content. The zero value is ready; its methods may be called from
// several goroutines. It holds what one tree had.
type Memory struct {
	mu       sync.Mutex
	scanned  *Scanned
	extra    string               // options that the releases were read with
	releases map[string][]release // by blob; nil for most
}

func (m *Memory) last() *Scanned {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.scanned
}

func (m *Memory) recall(blob, extra string) ([]release, bool) {
	if m == nil || blob == "" {
		return nil, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.extra != extra {
		return nil, false
	}
	r, ok := m.releases[blob]
	return r, ok
}

// keep takes the place of what was remembered.
func (m *Memory) keep(s *Scanned, releases map[string][]release) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scanned, m.releases, m.extra = s, releases, s.extra
}

// note adds to what was remembered. What is of no use any more goes with the
// next keep, and is not let grow until then.
func (m *Memory) note(s *Scanned, releases map[string][]release) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scanned = s
	if m.extra == s.extra && len(m.releases) < 2*s.files.Len() {
		maps.Copy(m.releases, releases)
	}
}

// index finds the files of a tree by path, and those beside it in the same
// repository where the tree lets it.
type index struct {
	files   []File // in the order of their paths
	outside Outside
	other   map[string]File   // files outside that were asked for
	folders map[string][]File // folders that were asked for
	asked   map[string]bool   // files that were, whether they are there or not
}

func newIndex(t Tree, files []File) *index {
	if !slices.IsSortedFunc(files, byPath) {
		files = slices.Clone(files)
		slices.SortFunc(files, byPath)
	}
	x := &index{files: files, other: map[string]File{}, folders: map[string][]File{}, asked: map[string]bool{}}
	x.outside, _ = t.(Outside)
	return x
}

// find returns a file of the tree.
func (x *index) find(p string) (File, bool) {
	i, ok := slices.BinarySearchFunc(x.files, p, func(f File, p string) int { return strings.Compare(f.Path, p) })
	if !ok {
		return File{}, false
	}
	return x.files[i], true
}

// file returns a regular file; false: there is none.
func (x *index) file(p string) (File, bool, error) {
	x.asked[p] = true
	if f, ok := x.find(p); ok {
		return f, f.Mode.Type() == 0, nil
	}
	if f, ok := x.other[p]; ok {
		return f, f.Path != "", nil
	}
	if x.outside == nil || !inside(p) {
		return File{}, false, nil
	}
	f, err := x.outside.File(p)
	var bad *FileError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f = File{}
	case errors.As(err, &bad):
		return File{}, false, bad
	case err != nil:
		return File{}, false, fmt.Errorf("read %s: %w", p, err)
	}
	x.other[p] = f
	return f, f.Path != "", nil
}

// below lists the regular files below a folder.
func (x *index) below(dir string) ([]File, error) {
	if files, ok := x.folders[dir]; ok {
		return files, nil
	}
	var out []File
	for _, f := range x.under(dir) {
		if f.Mode.Type() == 0 {
			out = append(out, f)
		}
	}
	if len(out) == 0 && x.outside != nil && inside(dir) {
		for f, err := range x.outside.Folder(dir) {
			var bad *FileError
			switch {
			case errors.As(err, &bad):
				return nil, bad
			case errors.Is(err, fs.ErrNotExist):
				return nil, nil
			case err != nil:
				return nil, fmt.Errorf("walk %s: %w", dir, err)
			}
			if f.Mode.Type() == 0 {
				out = append(out, f)
			}
		}
	}
	slices.SortFunc(out, byPath)
	x.folders[dir] = out
	return out, nil
}

// under are the files of the tree below a folder.
func (x *index) under(dir string) []File {
	if dir == "." {
		return x.files
	}
	at := func(p string) int {
		i, _ := slices.BinarySearchFunc(x.files, p, func(f File, p string) int { return strings.Compare(f.Path, p) })
		return i
	}
	return x.files[at(dir+"/"):at(dir+"0")] // "0" is what follows "/"
}

func byPath(a, b File) int { return strings.Compare(a.Path, b.Path) }

// below says whether a path lies in a folder.
func below(p, dir string) bool {
	return dir == "." || len(p) > len(dir) && p[:len(dir)] == dir && p[len(dir)] == '/'
}

// inside says whether a cleaned path stays in the repository.
func inside(p string) bool {
	return p != ".." && !path.IsAbs(p) && (len(p) < 3 || p[:3] != "../")
}
