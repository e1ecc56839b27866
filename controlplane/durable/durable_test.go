package durable

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	for _, text := range []string{"old", "new", ""} {
		if err := WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		is(t, path, text, 0o640)
	}
	if err := Replace(path, []byte("record"), 0o600); err != nil {
		t.Fatal(err)
	}
	is(t, path, "record", 0o600)
	alone(t, dir, "key")
}

// What was there stays when the new one cannot be written whole, and nothing is
// left beside it.
func TestFails(t *testing.T) {
	dir, broken := t.TempDir(), errors.New("broken")
	path := filepath.Join(dir, "key")
	if err := WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Write(path, 0o600, func(f *os.File) error {
		_, err := f.WriteString("half")
		return errors.Join(err, broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	is(t, path, "old", 0o600)
	alone(t, dir, "key")

	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "folder"), nil, 0o600); err == nil {
		t.Error("a file has replaced a folder")
	}
	alone(t, dir, "folder", "key")
}

// A full disk is said by its errno: callers have a way out of it.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mount tmpfs: %v", err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	path := filepath.Join(dir, "record")
	if err := WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error %v, want ENOSPC", err)
	}
	is(t, path, "old", 0o600)
	alone(t, dir, "record")
}

func TestWriteVia(t *testing.T) {
	dir := t.TempDir()
	refs, unfinished := filepath.Join(dir, "refs"), filepath.Join(dir, "incoming")
	for _, d := range []string{refs, unfinished} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	err := WriteVia(unfinished, filepath.Join(refs, "main"), 0o644, func(f *os.File) error {
		alone(t, refs) // no name that counts, before it is whole
		_, err := f.WriteString("sha")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	is(t, filepath.Join(refs, "main"), "sha", 0o644)
	alone(t, unfinished)
}

func TestRenameAndRemove(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "sub", "to")
	if err := errors.Join(os.Mkdir(filepath.Dir(to), 0o700), WriteFile(from, []byte("x"), 0o600), Rename(from, to)); err != nil {
		t.Fatal(err)
	}
	is(t, to, "x", 0o600)
	for range 2 { // what is not there is removed
		if err := Remove(to); err != nil {
			t.Fatal(err)
		}
	}
	if err := Rename(from, to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that there is no such file", err)
	}
}

const writes = "WRIT_TEST_WRITES" // the path that a child writes until it is killed

func TestMain(m *testing.M) {
	if path := os.Getenv(writes); path != "" {
		a, b := texts()
		for {
			if WriteFile(path, a, 0o600) != nil || WriteFile(path, b, 0o600) != nil {
				os.Exit(1)
			}
			_, _ = os.Stdout.Write([]byte{'.'})
		}
	}
	os.Exit(m.Run())
}

func texts() (a, b []byte) { return bytes.Repeat([]byte{'a'}, 1<<16), bytes.Repeat([]byte{'b'}, 1<<16) }

// A writer that is killed at any moment leaves one text or the other.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	a, b := texts()
	for i := range 20 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writes+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1+i)); err != nil { // it is at work
			t.Fatal(err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, a) && !bytes.Equal(got, b) {
			t.Fatalf("%d bytes, neither text", len(got))
		}
	}
}

func is(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != text || info.Mode() != mode {
		t.Errorf("%s: %q with mode %v, want %q with %v", path, got, info.Mode(), text, mode)
	}
}

// alone wants these names in a folder and no others.
func alone(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("%s holds %q, want %q", dir, got, names)
	}
}
