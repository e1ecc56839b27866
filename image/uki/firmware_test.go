package uki

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAccepted(t *testing.T) {
	_, cert := keyPair(t, "db")
	_, stranger := keyPair(t, "stranger")
	signed := signedSample(t)
	unsigned, err := Unsign(signed)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parsePE(signed)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := f.imageHash()
	if err != nil {
		t.Fatal(err)
	}
	byHash := append(guidSHA256[:len(guidSHA256):len(guidSHA256)], 76, 0, 0, 0, 0, 0, 0, 0, 48, 0, 0, 0)
	byHash = append(append(byHash, make([]byte, 16)...), hash[:]...)
	lists := func(c ...*x509.Certificate) []byte { return signatureLists([16]byte{}, c) }
	damaged := lists(cert)
	le.PutUint32(damaged[16:], 1<<30)
	for _, c := range []struct {
		name   string
		on, db []byte
		pe     []byte
		want   string // of the error; "" accepts
	}{
		{"no Secure Boot in the firmware", nil, nil, unsigned, ""},
		{"off", []byte{0}, nil, unsigned, ""},
		{"signed", []byte{1}, lists(stranger, cert), signed, ""},
		{"known by its hash", []byte{1}, append(lists(stranger), byHash...), unsigned, ""},
		{"unsigned", []byte{1}, lists(cert), unsigned, "would not start it: verify EFI program: it is not signed"},
		{"by a stranger", []byte{1}, lists(stranger), signed, "is none of the 1 trusted ones"},
		{"no keys to read", []byte{1}, nil, signed, "read variable of the firmware"},
		{"damaged keys", []byte{1}, damaged, signed, "is none of the 0 trusted ones"},
		{"no program", []byte{1}, lists(cert), []byte("x"), "not an EFI program"},
	} {
		dir := t.TempDir()
		for name, b := range map[string][]byte{secureBootVariable: c.on, databaseVariable: c.db} {
			if b == nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), append([]byte{7, 0, 0, 0}, b...), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := Accepted(dir, c.pe)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
