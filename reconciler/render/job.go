package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// job is a unit as a child is asked for it: all that it reads, decrypted by the
// server, which keeps the keys, the kinds and what takes secrets out of
// findings to itself.
type job struct {
	Format format
	Path   string
	Data   []byte // of a file that asks for charts, opened

	Files     map[string][]byte // as they are in the repository
	Opened    map[string]jobFile
	Variables map[string]string
	Vary      bool // there are Variables, if none

	Roots  nodes // of Builds
	Builds []jobBuild
	Reads  []string // by the build
	Charts []jobChart
	Values []string
}

type (
	// jobFile is an Opened.
	jobFile struct {
		Data                   []byte
		Sealed, Masked, Opaque bool
		Findings               []v1alpha1.Finding
	}
	// jobBuild is a kustomization.
	jobBuild struct {
		Dir, File              string
		Refs, Files, Manifests []string
	}
	// jobChart is a chartFiles.
	jobChart struct {
		Dir      string
		Files    []string
		Findings []v1alpha1.Finding
	}
)

// newJob reads all that a unit reads. opened is what Options.Open says of it,
// by path.
func newJob(u *Unit, data []byte) (j *job, opened map[string]Opened, err error) {
	j = &job{Format: u.format, Path: u.Path, Data: data, Files: map[string][]byte{}, Opened: map[string]jobFile{},
		Values: slices.Sorted(maps.Keys(u.values))}
	opened = map[string]Opened{}
	if u.opts != nil {
		j.Variables, j.Vary = u.opts.Variables, u.opts.Variables != nil
	}
	read := func(f File) {
		if _, ok := j.Files[f.Path]; !ok && err == nil {
			j.Files[f.Path], err = f.read(maxFileSize)
		}
	}
	open := func(f File) {
		var data []byte
		if _, ok := opened[f.Path]; ok || err != nil {
			return
		}
		if data, err = f.read(maxFileSize); err != nil {
			return
		}
		o := Opened{Data: data}
		if u.opts != nil && u.opts.Open != nil {
			o = u.opts.Open(f.Path, data)
		}
		opened[f.Path] = o
		j.Opened[f.Path] = jobFile{o.Data, o.Sealed, o.Masked, o.Opaque, o.Findings}
	}
	for _, f := range u.cueFiles {
		read(f)
	}
	for _, dir := range slices.Sorted(maps.Keys(u.charts)) {
		c := u.charts[dir]
		for _, f := range c.set.files {
			read(f)
		}
		j.Charts = append(j.Charts, jobChart{dir, slices.Sorted(maps.Keys(c.set.files)), c.findings})
	}
	for _, f := range u.values {
		open(f)
	}
	if u.kust != nil {
		for _, f := range u.kust.files.files {
			open(f)
		}
		j.add(u.kust)
	}
	return j, opened, err
}

// add describes the kustomizations that a build reads.
func (j *job) add(b *build) {
	var w nodeWriter
	for _, k := range b.all {
		files := make([]string, len(k.files))
		for i, f := range k.files {
			files[i] = f.Path
		}
		j.Builds = append(j.Builds, jobBuild{k.dir, k.file.Path, k.refs, files, slices.Sorted(maps.Keys(k.manifests))})
		w.node(k.root)
	}
	j.Roots, j.Reads = w.nodes, slices.Sorted(maps.Keys(b.files.files))
}

// unit makes the unit of a job again. used is told what is opened.
func (j *job) unit(used func(path string)) (*Unit, error) {
	u := &Unit{Path: j.Path, format: j.Format, opts: &Options{}, charts: map[string]*chartFiles{}, values: map[string]File{}, child: true}
	if j.Vary {
		u.opts.Variables = map[string]string{}
		maps.Copy(u.opts.Variables, j.Variables)
	}
	u.opts.Open = func(path string, _ []byte) Opened {
		used(path)
		o := j.Opened[path]
		return Opened{Data: o.Data, Sealed: o.Sealed, Masked: o.Masked, Opaque: o.Opaque, Findings: o.Findings}
	}
	var cues []File
	for _, p := range slices.Sorted(maps.Keys(j.Files)) {
		cues = append(cues, j.file(p))
	}
	if u.format == formatCUE {
		u.cue = &cueModule{fs: newCUEFS(cues)}
	}
	for _, c := range j.Charts {
		set := fileSet{files: map[string]File{}}
		for _, p := range c.Files {
			set.files[p] = j.file(p)
		}
		u.charts[c.Dir] = &chartFiles{dir: c.Dir, set: set, findings: c.Findings}
	}
	for _, p := range j.Values {
		u.values[p] = j.file(p)
	}
	if u.format != formatKustomize {
		return u, nil
	}
	var err error
	u.kust, err = j.build()
	return u, err
}

// file is a file of the job. One that is opened has no content before.
func (j *job) file(p string) File {
	data := j.Files[p]
	return File{Path: p, Size: int64(len(data)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

func (j *job) build() (*build, error) {
	b := &build{files: fileSet{files: map[string]File{}}}
	for _, p := range j.Reads {
		b.files.files[p] = j.file(p)
	}
	r := newNodeReader(j.Roots, 8*maxValues)
	for _, jb := range j.Builds {
		k := &kustomization{dir: jb.Dir, file: j.file(jb.File), refs: jb.Refs, root: r.node(0), manifests: map[string]bool{}}
		for _, p := range jb.Files {
			k.files = append(k.files, j.file(p))
		}
		for _, p := range jb.Manifests {
			k.manifests[p] = true
		}
		b.all = append(b.all, k)
	}
	if r.err != nil || len(b.all) == 0 {
		return nil, fmt.Errorf("read job: %w", errors.Join(r.err, errWire))
	}
	b.root = b.all[0]
	return b, nil
}
