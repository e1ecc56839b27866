package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-os/writ/image/uki"
)

// The keys of Secure Boot, as files are named after them.
const (
	platformKey = "PK"
	exchangeKey = "KEK"
	imageKey    = "db"
)

func imageKeys() *cobra.Command {
	var also []string
	cmd := &cobra.Command{
		Use:   "keys DIR",
		Short: "Make keys of Secure Boot",
		Long: `Keys makes, in a new directory, what a machine needs to start nothing but images
of yours:

  PK.key, PK.crt      whoever has it owns the machine's firmware settings
  KEK.key, KEK.crt    changes what the machine starts
  db.key, db.crt      signs images: --boot-key and --boot-cert of 'writ image build'
  PK.auth, KEK.auth,  what firmware is given, for --enrol of 'writ image build'; not
  db.auth             secret

Only db.key is needed to build; keep PK.key and KEK.key elsewhere. Machines trust
db as long as they run: whoever has db.key can make an image that they start.

Cards of a machine that bring firmware along (graphics, network, storage) have it
signed by Microsoft as a rule, and do not work where db does not know them: add
"Microsoft UEFI CA 2023" and "Microsoft Corporation UEFI CA 2011" by --also then.
They sign the boot loaders of others, too.`,
		Example: "  writ image keys secureboot\n  writ image build --version 1.2.3 --boot-key secureboot/db.key --boot-cert secureboot/db.crt --enrol secureboot",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			return writeKeys(a[0], also, time.Now(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringArrayVar(&also, "also", nil, "`file` of one more certificate whose programs are started, PEM or DER; may be given again")
	return cmd
}

// writeKeys makes the directory, so that no key that is there is lost.
func writeKeys(dir string, also []string, now time.Time, out io.Writer) error {
	var others []*x509.Certificate
	for _, name := range also {
		c, err := readCertificate(name)
		if err != nil {
			return fmt.Errorf("read --also: %w", err)
		}
		others = append(others, c)
	}
	pairs := map[string]uki.Pair{}
	for _, name := range []string{platformKey, exchangeKey, imageKey} {
		p, err := uki.NewPair("Writ Secure Boot "+name, now)
		if err != nil {
			return err
		}
		pairs[name] = p
	}
	e, err := uki.Enrol(pairs[platformKey], pairs[exchangeKey], append(others, pairs[imageKey].Certificate), now)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already: name a directory that is not, keys are never overwritten", dir)
	} else if err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	for name, p := range pairs {
		key, err := x509.MarshalPKCS8PrivateKey(p.Key)
		if err != nil {
			return fmt.Errorf("write keys: %w", err)
		}
		if err := errors.Join(
			os.WriteFile(filepath.Join(dir, name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600),
			os.WriteFile(filepath.Join(dir, name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate.Raw}), 0o644),
		); err != nil {
			return fmt.Errorf("write keys: %w", err)
		}
	}
	for name, b := range enrolFiles(e) {
		if err := os.WriteFile(filepath.Join(dir, name), *b, 0o644); err != nil {
			return fmt.Errorf("write keys: %w", err)
		}
	}
	fmt.Fprintf(out, "%s: keys of Secure Boot were made. Keep PK.key and KEK.key apart from where images are built.\n", dir)
	return nil
}

func enrolFiles(e *uki.Enrolment) map[string]*[]byte {
	return map[string]*[]byte{platformKey + ".auth": &e.PK, exchangeKey + ".auth": &e.KEK, imageKey + ".auth": &e.DB}
}

// readEnrolment reads the variables of a directory, of any tool that writes
// them, and refuses those by which a machine would not start this image.
func readEnrolment(dir string, cert *x509.Certificate) (*uki.Enrolment, error) {
	e := &uki.Enrolment{}
	for name, to := range enrolFiles(e) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("read --enrol: %w", err)
		}
		if err := uki.CheckEnrolment(b); err != nil {
			return nil, fmt.Errorf("read --enrol %s: %w", filepath.Join(dir, name), err)
		}
		*to = b
	}
	if !e.Starts(cert) {
		return nil, fmt.Errorf("read --enrol %s: it does not have the certificate %q, so a machine with these keys would not start what --boot-key signs", filepath.Join(dir, imageKey+".auth"), cert.Subject.CommonName)
	}
	return e, nil
}

func readCertificate(path string) (*x509.Certificate, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if p, _ := pem.Decode(b); p != nil {
		b = p.Bytes
	}
	c, err := x509.ParseCertificate(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}
