package main

import (
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/image/uki"
)

// What 'writ image keys' writes is what 'writ image build' reads.
func TestKeysOfSecureBoot(t *testing.T) {
	stranger, err := uki.NewPair("stranger", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "keys")
	other := filepath.Join(t.TempDir(), "other.pem")
	if err := os.WriteFile(other, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: stranger.Certificate.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeKeys(dir, []string{other}, time.Now(), io.Discard); err != nil {
		t.Fatal(err)
	}
	s, err := readSecureBoot(filepath.Join(dir, "db.key"), filepath.Join(dir, "db.crt"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := readEnrolment(dir, s.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	if !e.Starts(stranger.Certificate) {
		t.Error("the certificate of --also is not in db")
	}
	for _, name := range []string{"PK.key", "KEK.key", "db.key"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}

	if err := writeKeys(dir, nil, time.Now(), io.Discard); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("keys were overwritten: %v", err)
	}
	if _, err := readEnrolment(t.TempDir(), s.Certificate); err == nil {
		t.Error("read keys that are not there")
	}
	platform, err := readCertificate(filepath.Join(dir, "PK.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readEnrolment(dir, platform); err == nil || !strings.Contains(err.Error(), "would not start what --boot-key signs") {
		t.Errorf("a machine would not start its image: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "db.auth"), []byte("no variable"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readEnrolment(dir, s.Certificate); err == nil || !strings.Contains(err.Error(), "no authenticated variable") {
		t.Errorf("read what is no variable: %v", err)
	}
}
