package cluster

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/ci/freeport"
	"github.com/writ-os/writ/cmd/writ/member"
)

// Another version saves what the one before has left, before it opens the store:
// that one can be had back with all that it had, though the data is of a newer
// format now. The same version saves nothing.
func TestBackupBeforeAnotherVersion(t *testing.T) {
	cfg := Config{DataDir: filepath.Join(t.TempDir(), "data"), Listen: freeport.Local(t), NodeName: "n", Still: true, Version: "v1", Log: slog.New(slog.DiscardHandler)}
	saved := func() []string {
		t.Helper()
		all, err := backups(cfg.file(backupsDir))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	running(t, cfg, func() { put(t, cfg, "before") })
	running(t, cfg, func() { put(t, cfg, "same") })
	if all := saved(); len(all) != 0 {
		t.Errorf("saved by the first version, or for the same: %v", all)
	}
	next := cfg
	next.Version = "v2+1/x"
	running(t, next, func() { put(t, next, "after") })
	all := saved()
	if len(all) != 1 || filepath.Base(all[0]) != "v1-to-v2_1_x.db" {
		t.Fatalf("saved: %v", all)
	}
	if st, err := os.Stat(all[0]); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v %v", st.Mode(), err)
	}

	if err := os.WriteFile(cfg.file(formatFile), []byte(`{"format":99,"version":"v2"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cfg.checkFormat(); err == nil || !strings.Contains(err.Error(), "restore a backup of before") {
		t.Errorf("data of a newer format: %v", err)
	}
	f, err := os.Open(all[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := member.Restore(cfg.DataDir, f, time.Now(), cfg.Log); err != nil {
		t.Fatal(err)
	}
	if err := Restored(cfg.DataDir); err != nil {
		t.Fatal(err)
	}
	running(t, cfg, func() {
		if err := look(t, cfg, "before"); err != nil {
			t.Errorf("what the version before had: %v", err)
		}
		if err := look(t, cfg, "after"); !apierrors.IsNotFound(err) {
			t.Errorf("what the version after wrote: %v", err)
		}
	})
}

// What is saved has a bound, in number and by the room that is left, and the
// format of data does not change without it.
func TestBackupsAreBounded(t *testing.T) {
	c := Config{DataDir: filepath.Join(t.TempDir(), "data"), Listen: freeport.Local(t), NodeName: "n", Still: true, Version: "v0", Log: slog.New(slog.DiscardHandler)}
	running(t, c, func() { put(t, c, "x") })
	dir := c.file(backupsDir)
	from := c.Version
	for i, to := range []string{"v1", "v2", "v3", "v4", "v5"} {
		c.Version = to
		if i == 3 { // a start that was killed
			if err := os.WriteFile(filepath.Join(dir, ".v1-to-v2.db.123"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // and tried again
			if err := c.backupBefore(from); err != nil {
				t.Fatal(err)
			}
		}
		from = to
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range names {
		got = append(got, n.Name())
	}
	if want := "v2-to-v3.db v3-to-v4.db v4-to-v5.db"; strings.Join(got, " ") != want {
		t.Errorf("kept %v, want %s", got, want)
	}
	if err := makeRoom(dir, 1<<60); err == nil || !strings.Contains(err.Error(), "make room there") {
		t.Errorf("more than any disk has: %v", err)
	}
	if all, err := backups(dir); err != nil || len(all) != 1 {
		t.Errorf("while there is no room %v are kept, want the newest: %v", all, err)
	}

	// It cannot be saved: a directory is where its file would be.
	if err := os.MkdirAll(filepath.Join(dir, "v9-to-v10.db", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.Version = "v10"
	for have, refused := range map[string]bool{`{"format":1,"version":"v9"}`: true, `{"format":2,"version":"v9"}`: false} {
		if err := os.WriteFile(c.file(formatFile), []byte(have), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.checkFormat(); (err != nil) != refused {
			t.Errorf("%s: %v", have, err)
		}
		if half, _ := filepath.Glob(filepath.Join(dir, ".*-to-*.db.*")); len(half) > 0 {
			t.Errorf("left: %v", half)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "v9-to-v10.db", "x")); errors.Is(err, fs.ErrNotExist) {
		t.Error("what is no backup was removed")
	}
}
