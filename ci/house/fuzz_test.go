package house

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"testing"
)

// TestFuzzCorpus: what is kept of fuzzing is of targets that there are; a package
// that moves takes its corpus along.
func TestFuzzCorpus(t *testing.T) {
	f, err := os.Open(path.Join("../..", "ci/fuzz/corpus.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]int{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			targets[strings.TrimPrefix(path.Dir(h.Name), module)]++
		}
	}
	for target := range targets {
		if !declaresFuzz(path.Join("../..", path.Dir(target)), path.Base(target)) {
			t.Errorf("ci/fuzz/corpus.tar.gz has %d inputs of %s, which is no fuzz target: make corpus", targets[target], target)
		}
	}
	if len(targets) < 20 {
		t.Errorf("there are inputs of %d targets", len(targets))
	}
}

func declaresFuzz(dir, name string) bool {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if data, err := os.ReadFile(path.Join(dir, e.Name())); strings.HasSuffix(e.Name(), "_test.go") && err == nil && strings.Contains(string(data), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
