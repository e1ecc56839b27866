package build

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/writ-os/writ/image/lock"
)

func testSigner(t *testing.T) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConfigIsChecked(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	good := Config{Version: "1.2.3", Lock: &lock.Lock{Packages: []lock.Package{{Name: "a"}}}, Cache: "c", Out: "o", Epoch: time.Unix(1, 0)}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"version", func(c *Config) { c.Version = "../x" }, `version "../x" must be a semantic version`},
		{"version of no NodeImage", func(c *Config) { c.Version = "v1.2.3" }, "without a leading v"},
		{"long version", func(c *Config) { c.Version = "1.2.3-" + strings.Repeat("a", 24) }, "of at most 29 characters"},
		{"lock", func(c *Config) { c.Lock = &lock.Lock{} }, "there is no lock"},
		{"epoch", func(c *Config) { c.Epoch = time.Time{} }, "SOURCE_DATE_EPOCH"},
		{"out", func(c *Config) { c.Out = "" }, "there is no directory"},
		{"program", func(c *Config) { c.Programs = Programs{script, script, script, script} }, "build it by `make image`"},
	} {
		cfg := good
		c.change(&cfg)
		if _, err := Build(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestLicenceNames(t *testing.T) {
	text := "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: GPL-2+ with exception\n\nFiles: a\nLicense: LGPL-2.1+ or Expat\n\nLicense: public-domain\n no text\n"
	l := licenses{}
	if got := l.expression(licenseNames(text)); got != "GPL-2.0-or-later AND LGPL-2.1-or-later AND LicenseRef-debian-public-domain AND MIT" {
		t.Error(got)
	}
	if got := l.list(); len(got) != 1 || got[0].Name != "public-domain" {
		t.Error(got)
	}
	if licenseNames("This package was debianized by...\nLicense: GPL-2\n") != nil {
		t.Error("a file of no form is read")
	}
}
