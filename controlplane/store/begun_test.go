package store

import (
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

// A server that was killed after it had made its log and before it had written
// into it starts; the log of one that has begun is left alone.
func TestUnbegun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	logs := filepath.Join(dir, "member", "wal")
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := wal.Create(zap.NewNop(), logs, []byte("metadata"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if unbegun, err := unbegunLog(logs, filepath.Join(dir, "member", "snap")); err != nil || !unbegun {
		t.Fatalf("%v, %v", unbegun, err)
	}
	s, stop := open(t, Config{Dir: dir})
	if _, err := s.Txn(t.Context(), roundWrites(s, 1)); err != nil {
		t.Fatal(err)
	}
	stop()
	if unbegun, err := unbegunLog(logs, filepath.Join(dir, "member", "snap")); err != nil || unbegun {
		t.Fatalf("begun: %v, %v", unbegun, err)
	}
	s, stop = open(t, Config{Dir: dir})
	defer stop()
	if got := roundOf(s); got != 1 {
		t.Errorf("round %d", got)
	}
}
