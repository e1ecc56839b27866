package imagecmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/config"
	"github.com/writ-os/writ/image/esp"
	"github.com/writ-os/writ/image/gpt"
)

// Report is what is in an image.
type Report struct {
	Kind     Kind   `json:"kind"`
	Version  string `json:"version"`
	RootHash string `json:"rootHash"`
	// Of a disk.
	Kernel      string      `json:"kernel,omitempty"`
	CommandLine string      `json:"commandLine,omitempty"`
	Partitions  []Partition `json:"partitions,omitempty"`
	// Configured says whether it knows who its machine is.
	Configured *bool `json:"configured,omitempty"`
	// Of a bundle.
	Arch    string        `json:"arch,omitempty"`
	Created *time.Time    `json:"created,omitempty"`
	Files   []bundle.File `json:"files,omitempty"`
}

// Partition of a disk.
type Partition struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	GUID   string `json:"guid"`
	Size   int64  `json:"size"` // in bytes
}

// Inspect looks into an image. It proves nothing.
func Inspect(path string) (*Report, error) {
	f, kind, size, err := open(path, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("inspect image: %w", err)
	}
	defer f.Close()
	look := inspectBundle
	if kind == Disk {
		look = inspectDisk
	}
	r, err := look(f, size)
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", path, err)
	}
	return r, nil
}

func inspectDisk(f io.ReaderAt, size int64) (*Report, error) {
	table, err := gpt.Parse(f, size)
	if err != nil {
		return nil, err
	}
	r := &Report{Kind: Disk}
	for i, p := range table.Partitions {
		if p.Type.IsZero() {
			continue
		}
		r.Partitions = append(r.Partitions, Partition{i + 1, p.Name, p.GUID.String(), p.Size()})
	}
	k, err := kernel(f, size)
	if err != nil {
		return nil, err
	}
	r.Kernel, r.CommandLine, r.RootHash = k.Uname, k.Cmdline, rootHash(k.Cmdline)
	for _, p := range r.Partitions {
		if v, ok := strings.CutPrefix(p.Name, "root_"); ok && r.Version == "" {
			r.Version = v
		}
	}
	offset, length, err := esp.Locate(f, size)
	if err != nil {
		return nil, err
	}
	_, err = esp.Get(f, offset, length, config.ESPPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	configured := err == nil
	r.Configured = &configured
	return r, nil
}

// anyDigest lets a bundle be read whose digest nobody has said: inspecting
// believes nothing.
const anyDigest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

func inspectBundle(f io.ReaderAt, size int64) (*Report, error) {
	b, err := bundle.Read(io.NewSectionReader(f, 0, size), bundle.Trust{Digest: anyDigest})
	if err != nil {
		return nil, err
	}
	m := b.Manifest()
	return &Report{Kind: Bundle, Version: m.Version, RootHash: m.RootHash, Arch: m.Arch, Created: &m.Created, Files: m.Files}, nil
}

// Write prints a report for people.
func (r *Report) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(tw, "%s\t%s\n", name, value)
		}
	}
	row("kind", string(r.Kind))
	row("version", r.Version)
	row("root hash", r.RootHash)
	row("processor", r.Arch)
	row("kernel", r.Kernel)
	row("command line", r.CommandLine)
	if r.Created != nil {
		row("created", r.Created.Format(time.RFC3339))
	}
	if r.Configured != nil {
		text := "no: the machine will ask; see 'writ image configure --help'"
		if *r.Configured {
			text = "yes: it has a node.yaml"
		}
		row("configured", text)
	}
	for _, p := range r.Partitions {
		row(fmt.Sprintf("partition %d", p.Number), fmt.Sprintf("%-16s %6d MiB  %s", p.Name, p.Size>>20, p.GUID))
	}
	for _, f := range r.Files {
		row("file", fmt.Sprintf("%-14s %10d bytes  %s", f.Name, f.Size, f.SHA256))
	}
	return tw.Flush()
}
