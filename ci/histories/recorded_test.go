package histories

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestRecorded plays the histories of testdata.
func TestRecorded(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	if len(files) == 0 {
		t.Fatal("no histories")
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			ar, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := run(t, ar); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// run plays a history in a cluster of its own.
func run(t *testing.T, ar *txtar.Archive) (err error) {
	dir := scratch(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir)
		defer w.stop()
		err = play(w, ar)
	})
	return err
}
