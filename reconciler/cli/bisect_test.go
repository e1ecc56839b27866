package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestBisectOldCommits: that an old commit would delete most of what runs now
// makes it no bad one.
func TestBisectOldCommits(t *testing.T) {
	s := &script{T: t, dir: filepath.Join(t.TempDir(), "clone"), sha: map[string]string{}, files: map[string]string{"one/ns.yaml": namespace}}
	s.start()
	s.commit("one", nil)
	for i := range 30 {
		s.files[fmt.Sprintf("two/c%d.yaml", i)] = strings.Replace(config("1"), "conf", fmt.Sprintf("c%d", i), 1)
	}
	s.commit("two", nil)
	s.apply("two")
	s.files["three/c1.yaml"] = strings.Replace(s.files["two/c1.yaml"], "data", "dta", 1)
	s.commit("three", nil)
	b, err := Bisect(t.Context(), s.cluster, Options{Clone: s.dir}, "one", "three", nil)
	if err != nil || b.First.Commit != s.sha["three"] {
		t.Fatal(err, b)
	}
	if b.Steps[1].How != "plan" || b.Steps[1].Bad {
		t.Errorf("%+v", b.Steps[1])
	}
}

// TestBisectSteps: a long history costs its logarithm, wherever the first bad
// commit is.
func TestBisectSteps(t *testing.T) {
	const n = 40
	s := &script{T: t, dir: filepath.Join(t.TempDir(), "clone"), sha: map[string]string{}, files: map[string]string{"c0/ns.yaml": namespace, "c0/bad.yaml": config("1")}}
	s.start()
	for i := range n {
		if i == 17 {
			s.files["c17/bad.yaml"] = strings.Replace(config("1"), "data", "dta", 1)
		}
		s.files[fmt.Sprintf("c%d/n.yaml", i)] = strings.Replace(config(fmt.Sprint(i)), "conf", "n", 1)
		s.commit(fmt.Sprintf("c%d", i), nil)
	}
	b, err := Bisect(t.Context(), nil, Options{Clone: s.dir}, "c0", fmt.Sprintf("c%d", n-1), nil)
	if err != nil || b.First.Commit != s.sha["c17"] || len(b.Steps) > 8 || b.Between != n-2 {
		t.Error(err, b)
	}
}
