// Command image packs static binaries, files and directories (with their
// symbolic links) as an image archive that `ctr images import` reads.
//
//	image -out agnhost.tar -name registry.k8s.io/e2e-test-images/agnhost:2.59 -entrypoint /agnhost -cmd pause agnhost=bin/agnhost
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

func main() {
	out := flag.String("out", "", "the archive to write")
	names := flag.String("name", "", "names of the image, with commas between them")
	entry := flag.String("entrypoint", "", "its entry point, words with spaces between them")
	args := flag.String("cmd", "", "its default arguments, words with spaces between them")
	flag.Parse()
	if *out == "" || *names == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := pack(*out, strings.Split(*names, ","), strings.Fields(*entry), strings.Fields(*args), flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// pack writes one layer with the files, each given as NAME=SOURCE.
func pack(out string, names, entrypoint, cmd, files []string) error {
	layer, err := layerOf(files)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": entrypoint, "Cmd": cmd, "Env": []string{"PATH=/:/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": names, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name string
		data []byte
	}{{"config.json", config}, {"layer.tar", layer}, {"manifest.json", manifest}} {
		if err := add(w, f.name, 0o644, f.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(out, archive.Bytes(), 0o644)
}

func layerOf(files []string) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"tmp/", "etc/", "bin/"} {
		if err := w.WriteHeader(&tar.Header{Name: dir, Mode: 0o1777, Typeflag: tar.TypeDir}); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		name, source, ok := strings.Cut(f, "=")
		if !ok {
			return nil, fmt.Errorf("%q: want NAME=SOURCE", f)
		}
		if err := addTree(w, name, filepath.Clean(source)); err != nil {
			return nil, err
		}
	}
	return layer.Bytes(), w.Close()
}

// addTree adds a file, or a directory with all that is below it.
func addTree(w *tar.Writer, name, source string) error {
	return filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		at := filepath.Join(name, rel)
		switch {
		case d.IsDir() && at == ".":
			return nil
		case d.IsDir():
			return w.WriteHeader(&tar.Header{Name: at + "/", Mode: 0o755, Typeflag: tar.TypeDir})
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return w.WriteHeader(&tar.Header{Name: at, Linkname: target, Typeflag: tar.TypeSymlink})
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return add(w, at, 0o755, data)
	})
}

func add(w *tar.Writer, name string, mode int64, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
