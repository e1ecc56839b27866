package reconciler

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/writ-os/writ/reconciler/source"
)

// A tree that was not walked to its end is refused: what was not seen would be
// taken for removed.
func TestPartialTreeIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		text := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n"
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(l source.Limits) int {
		t.Helper()
		findings, err := Check(t.Context(), Tree(source.Dir{Root: dir, Limits: l}, "."))
		if err != nil {
			t.Fatal(err)
		}
		return len(findings)
	}
	if n := check(source.Limits{}); n != 0 {
		t.Errorf("%d findings within the limits", n)
	}
	if n := check(source.Limits{Files: 2}); n != 1 {
		t.Errorf("more files than the limit: %d findings, want 1", n)
	}
	if n := check(source.Limits{TotalSize: 100}); n != 1 {
		t.Errorf("more bytes than the limit: %d findings, want 1", n)
	}
}
