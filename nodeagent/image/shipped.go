package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// The images that ship with writ.
const (
	Pause  = "writ.local/pause:v1"
	DemoV1 = "writ.local/demo:v1"
	DemoV2 = "writ.local/demo:v2"
)

// labelSource is the hash of the binary that a shipped image was made of.
const labelSource = "writ.dev/source"

// shipped describes an image made of the running binary.
type shipped struct {
	ref        string
	entrypoint []string
	env        []string
	labels     map[string]string
}

func shippedImages() []shipped {
	demo := func(ref, version string) shipped {
		return shipped{
			ref:        ref,
			entrypoint: []string{"/writ", "demo"},
			env:        []string{"PATH=/", "VERSION=" + version},
			labels:     map[string]string{"version": version},
		}
	}
	return []shipped{
		{ref: Pause, entrypoint: []string{"/writ", "pause"}, env: []string{"PATH=/"}},
		demo(DemoV1, "v1"),
		demo(DemoV2, "v2"),
	}
}

// ImportShipped makes the shipped images from a binary, and imports them
// unless the store has those of the same binary. It says whether it did.
func ImportShipped(ctx context.Context, store Store, binary string) (bool, error) {
	f, err := os.Open(binary)
	if err != nil {
		return false, fmt.Errorf("read own binary: %w", err)
	}
	defer f.Close()
	source, err := sourceOf(f)
	if err != nil {
		return false, fmt.Errorf("read own binary: %w", err)
	}
	current := true
	for _, s := range shippedImages() {
		img, ok, err := store.Image(ctx, s.ref)
		if err != nil {
			return false, fmt.Errorf("look up shipped image: %w", err)
		}
		current = current && ok && img.Labels[labelSource] == source
	}
	if current {
		return false, nil
	}
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(writeArchive(pw, f, shippedImages())) }()
	err = store.Import(ctx, pr, map[string]string{labelSource: source})
	pr.CloseWithError(err)
	if err != nil {
		return false, fmt.Errorf("import shipped images: %w", err)
	}
	return true, nil
}

func sourceAt(binary string) (string, error) {
	f, err := os.Open(binary)
	if err != nil {
		return "", fmt.Errorf("read own binary: %w", err)
	}
	defer f.Close()
	return sourceOf(f)
}

// sourceOf identifies a binary without reading it whole, which would cost
// 50 ms at every start: the Go build ID near its beginning changes with the
// code, size and time with the file.
func sourceOf(f *os.File) (string, error) {
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "v1 %d %d\n", fi.Size(), fi.ModTime().UnixNano())
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, 64<<10)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil))[:32], nil
}

// config is the part of an image configuration that containers need.
type config struct {
	Architecture string       `json:"architecture"`
	OS           string       `json:"os"`
	Created      time.Time    `json:"created"`
	Config       configConfig `json:"config"`
	RootFS       configRootFS `json:"rootfs"`
}

type configConfig struct {
	Entrypoint []string          `json:"Entrypoint"`
	Env        []string          `json:"Env"`
	Labels     map[string]string `json:"Labels,omitempty"`
	WorkingDir string            `json:"WorkingDir"`
}

type configRootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type manifestEntry struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

// writeArchive writes a docker archive with the images, which share one layer
// that holds the binary as /writ. The same binary gives the same bytes.
func writeArchive(w io.Writer, binary *os.File, images []shipped) error {
	size, digest, err := layerDigest(binary)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	layer := digest + ".tar"
	if err := tw.WriteHeader(header(layer, size, 0o644)); err != nil {
		return err
	}
	if err := writeLayer(tw, binary); err != nil {
		return err
	}
	var manifest []manifestEntry
	for _, s := range images {
		b, err := json.Marshal(configOf(s, digest))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		name := hex.EncodeToString(sum[:]) + ".json"
		if err := writeFile(tw, name, b); err != nil {
			return err
		}
		manifest = append(manifest, manifestEntry{Config: name, RepoTags: []string{s.ref}, Layers: []string{layer}})
	}
	b, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	if err := writeFile(tw, "manifest.json", b); err != nil {
		return err
	}
	return tw.Close()
}

func writeFile(tw *tar.Writer, name string, b []byte) error {
	if err := tw.WriteHeader(header(name, int64(len(b)), 0o644)); err != nil {
		return err
	}
	_, err := tw.Write(b)
	return err
}

func header(name string, size, mode int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: mode, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
}

// layerDigest makes the layer once for its size and digest.
func layerDigest(binary *os.File) (size int64, digest string, err error) {
	h := sha256.New()
	c := &counter{w: h}
	if err := writeLayer(c, binary); err != nil {
		return 0, "", err
	}
	return c.n, hex.EncodeToString(h.Sum(nil)), nil
}

// writeLayer writes the file system of the images: the binary, and the
// directories that programs expect.
func writeLayer(w io.Writer, binary *os.File) error {
	fi, err := binary.Stat()
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	for _, d := range []struct {
		name string
		mode int64
	}{{"data/", 0o1777}, {"etc/", 0o755}, {"tmp/", 0o1777}} {
		h := header(d.name, 0, d.mode)
		h.Typeflag = tar.TypeDir
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
	}
	if err := tw.WriteHeader(header("writ", fi.Size(), 0o755)); err != nil {
		return err
	}
	if _, err := io.Copy(tw, io.NewSectionReader(binary, 0, fi.Size())); err != nil {
		return err
	}
	return tw.Close()
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
func configOf(s shipped, layerDigest string) config {
	return config{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Created:      time.Unix(0, 0).UTC(),
		Config: configConfig{
			Entrypoint: s.entrypoint,
			Env:        s.env,
			Labels:     s.labels,
			WorkingDir: "/",
		},
		RootFS: configRootFS{Type: "layers", DiffIDs: []string{"sha256:" + layerDigest}},
	}
}
