package render

import (
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"sync/atomic"

	"github.com/writ-os/writ/reconciler/secret"
	"github.com/writ-os/writ/reconciler/sortedset"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Scanned is what a tree has to be rendered. It never changes and may be used
// by several goroutines.
//
// The Scanned of two versions of a tree share what they have in common, and
// one is made of the other at the cost of what differs (see Read).
type Scanned struct {
	tree    Tree
	opts    *Options
	extra   string // the part of hashes that opts make
	version string // of the tree; "" where it has none

	files    *sortedset.Set[*File] // by path
	bytes    int64
	bad      []*FileError
	units    *sortedset.Set[*Unit] // by path; unbound
	findings []v1alpha1.Finding
	rules    []File // those that policies and health rules are made of, and more
	sealing  string // hash of the rules of sops; "": there are none
	reads    *reads

	id, from uint64 // this, and what changed is told from; from may be 0
	changed  []string
}

// scans numbers what was scanned.
var scans atomic.Uint64

// Read scans a tree (see Scan). With a Memory, and of a tree that is Versioned,
// it costs what differs from the tree that was read last, as long as that is
// plain files: where a kustomization, a chart, a CUE file, the list of ignored
// files or a file that they read differs, the list of files is gone through
// again, which reads nothing that is known.
func Read(t Tree, o Options) (*Scanned, error) {
	s := &Scanned{tree: t, opts: &o, extra: o.hash(), id: scans.Add(1)}
	defer s.settle()
	before := o.Memory.last()
	if v, ok := t.(Versioned); ok {
		var err error
		if s.version, err = v.Version(); err != nil {
			return nil, fmt.Errorf("walk tree: %w", err)
		}
		if done, err := s.follow(v, before); done || err != nil {
			return s, err
		}
	}
	if s.files == nil {
		if err := s.walk(); err != nil {
			return nil, err
		}
	}
	releases, err := s.scan()
	if err != nil {
		return nil, err
	}
	s.compare(before)
	if !slices.ContainsFunc(s.bad, func(b *FileError) bool { return b.Partial }) {
		o.Memory.keep(s, releases)
	}
	return s, nil
}

// settle lets go of a tree that nothing is read from any more but files.
func (s *Scanned) settle() {
	if _, outside := s.tree.(Outside); s.version != "" && !outside {
		s.tree = nil
	}
}

// follow takes over what was found in another version of the tree: all of it,
// when it is true, or else, where the files are set, the files.
func (s *Scanned) follow(t Versioned, before *Scanned) (bool, error) {
	if before == nil || before.version == "" {
		return false, nil
	}
	var diff []Difference
	if s.version != before.version {
		var ok bool
		var err error
		if diff, ok, err = t.Since(before.version); err != nil || !ok {
			return false, err
		}
	}
	files, bytes := before.files.Clone(), before.bytes
	for _, d := range diff {
		if was, ok := files.Delete(&File{Path: d.Path}); ok {
			bytes -= was.Size
		}
		if d.File != nil {
			files.Put(d.File)
			bytes += d.File.Size
		}
	}
	if !t.Fits(files.Len(), bytes) {
		return false, nil
	}
	s.files, s.bytes, s.bad = files, bytes, before.bad
	if s.extra != before.extra || !before.reads.plain(diff) {
		return false, nil
	}
	if ok, err := s.patch(before, diff); err != nil || !ok {
		return false, err
	}
	return true, nil
}

// patch makes the units of those of another version, from which only plain
// files differ; false: charts are asked for.
func (s *Scanned) patch(before *Scanned, diff []Difference) (bool, error) {
	s.sealing, s.opts.creations = before.sealing, before.opts.creations
	units, scanner := before.units, s.scanner(before.reads.ignored)
	scanner.searches = before.reads.searches
	var changed []string
	for _, d := range diff {
		if !isManifestFile(d.Path) || hidden(d.Path) || before.reads.ignored.match(d.Path) {
			continue
		}
		if len(changed) == 0 {
			units = units.Clone()
		}
		changed = append(changed, d.Path)
		if was, ok := units.Delete(&Unit{Path: d.Path}); ok && len(was.charts) > 0 {
			return false, nil
		}
		if d.File == nil {
			continue
		}
		u := fileUnit(d.File)
		if scanner.searches {
			if found, err := scanner.releasesOf(u, *d.File); err != nil || len(found) > 0 {
				return false, err
			}
		}
		u.Hash = s.hash(u.Hash)
		units.Put(u)
	}
	s.units, s.findings, s.rules, s.reads = units, before.findings, before.rules, before.reads
	s.from, s.changed = before.id, changed
	s.opts.Memory.note(s, scanner.releases)
	return true, nil
}

// walk reads the list of files.
func (s *Scanned) walk() error {
	files, bad, err := list(s.tree)
	if err != nil {
		return err
	}
	s.bad, s.files = bad, sortedset.New(func(a, b *File) bool { return a.Path < b.Path })
	for i := range files {
		s.files.Put(&files[i])
		s.bytes += files[i].Size
	}
	return nil
}

// scan goes through the list of files.
func (s *Scanned) scan() (map[string][]release, error) {
	files := make([]File, 0, s.files.Len())
	for f := range s.files.All() {
		files = append(files, *f)
		if path.Ext(f.Path) == ".cue" {
			s.rules = append(s.rules, *f)
		}
	}
	ignored, err := readIgnore(files)
	if err != nil {
		return nil, err
	}
	scanner := s.scanner(ignored)
	scanner.index = newIndex(s.tree, files)
	if scanner.findings, err = s.creations(files); err != nil {
		return nil, err
	}
	for _, b := range s.bad {
		if matters(b, ignored) {
			scanner.findings = append(scanner.findings, v1alpha1.Finding{File: b.Path, Rule: b.Rule, Message: b.Message})
		}
	}
	units, err := scanner.scan(files)
	if err != nil {
		return nil, err
	}
	s.units = sortedset.New(func(a, b *Unit) bool { return a.Path < b.Path })
	for _, u := range units {
		u.Hash = s.hash(u.Hash)
		s.units.Put(u)
	}
	s.findings, s.reads = scanner.findings, scanner.reads(units)
	return scanner.releases, nil
}

func (s *Scanned) scanner(ignored ignores) *scanner {
	out := &scanner{opts: s.opts, tree: s.tree, ignored: ignored, dirs: map[string]*kustomization{}, releases: map[string][]release{}, bad: make(map[string]*FileError, len(s.bad))}
	for _, b := range s.bad {
		out.bad[b.Path] = b
	}
	return out
}

func (s *Scanned) hash(unit string) string {
	for _, more := range []string{s.extra, s.sealing} {
		if more != "" {
			unit += "+" + more
		}
	}
	return unit
}

// compare notes which units differ from those of another version.
func (s *Scanned) compare(before *Scanned) {
	if before == nil {
		return
	}
	s.from = before.id
	for u := range s.units.All() {
		if was, ok := before.units.Get(u); !ok || was.Hash != u.Hash {
			s.changed = append(s.changed, u.Path)
		}
	}
	for u := range before.units.All() {
		if _, ok := s.units.Get(u); !ok {
			s.changed = append(s.changed, u.Path)
		}
	}
}

// Units yields the units in the order of their paths.
func (s *Scanned) Units() iter.Seq[*Unit] { return s.units.All() }

// Len is how many units there are.
func (s *Scanned) Len() int { return s.units.Len() }

// Unit returns the unit of a path.
func (s *Scanned) Unit(path string) (*Unit, bool) { return s.units.Get(&Unit{Path: path}) }

// Findings are what is wrong with the tree itself.
func (s *Scanned) Findings() []v1alpha1.Finding { return slices.Clip(s.findings) }

// Since lists the paths of the units that are not in both, or not the same;
// false where that is not known.
func (s *Scanned) Since(before *Scanned) ([]string, bool) {
	switch before.id {
	case s.id:
		return nil, true
	case s.from:
		return s.changed, true
	}
	return nil, false
}

// Rules is as much of the tree as Policies and HealthRules read.
func (s *Scanned) Rules() Tree {
	if s.tree != nil {
		return s.tree
	}
	return fileList(s.rules)
}

// Render reads a unit of the tree (see Render).
func (s *Scanned) Render(ctx context.Context, u *Unit) (*Rendered, error) {
	return Render(ctx, s.bound(u))
}

// bound is a unit with the options of the scan.
func (s *Scanned) bound(u *Unit) *Unit {
	out := *u
	out.opts = s.opts
	return &out
}

// fileList is a tree of some files.
type fileList []File

// Walk implements Tree.
func (l fileList) Walk() iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for _, f := range l {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// reads is what decides of which files units are made, besides the files
// themselves.
type reads struct {
	ignored  ignores
	searches bool
	charts   map[string]bool
	owned    map[string]bool
	asked    map[string]bool // files that were looked for, whether they are there or not
	folders  map[string]bool // folders of which all files were looked for
	fragile  bool            // something is wrong, and any file may mend it
}

func (s *scanner) reads(units []*Unit) *reads {
	r := &reads{ignored: s.ignored, searches: s.searches, charts: map[string]bool{}, owned: s.owned, asked: s.index.asked, folders: map[string]bool{}}
	for _, dir := range s.charts {
		r.charts[dir] = true
	}
	for dir := range s.index.folders {
		r.folders[dir] = true
	}
	for _, u := range units {
		r.fragile = r.fragile || len(u.known()) > 0
	}
	return r
}

// plain says whether files are each a unit by itself, or none, and change no
// other.
func (r *reads) plain(diff []Difference) bool {
	if r.fragile {
		return len(diff) == 0
	}
	return !slices.ContainsFunc(diff, func(d Difference) bool {
		name := path.Base(d.Path)
		if name == chartFile || name == secret.RulesFile || d.Path == ignoreFile || path.Ext(name) == ".cue" || slices.Contains(kustomizationFiles, name) || r.asked[d.Path] {
			return true
		}
		for dir := path.Dir(d.Path); ; dir = path.Dir(dir) {
			if r.charts[dir] || r.owned[dir] || r.folders[dir] {
				return true
			}
			if dir == "." {
				return false
			}
		}
	})
}
