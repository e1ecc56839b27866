package main

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/writ-os/writ/cmd/writ/progress"
	"github.com/writ-os/writ/image/build"
	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/lock"
)

// buildFlags are what a build is told.
type buildFlags struct {
	version, lock, cache, out, programs, key, bootKey, bootCert, enrol, output string
	enrolForce, fast                                                           bool
}

func imageBuild() *cobra.Command {
	var f buildFlags
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build the image of a version",
		Long: `Build makes, in the directory --out:

  writ-VERSION-amd64.raw.zst    the disk that a machine starts from; unpack it and
                                write it to a disk, or give it to a virtual machine
  writ-VERSION-amd64.qcow2      the same for virtual machines
  writ-VERSION-amd64.bundle     what a NodeImage names, to update nodes with
  writ-VERSION-amd64.spdx.json  what is in it, and under which licences
  SHA256SUMS, SHA256SUMS.sig    sums, and the signature by --sign-key

It takes Debian's packages that the lock pins, fetches those that the cache does
not have, and unpacks them; nothing is installed and nothing of this machine goes
in. It needs neither root nor containers. The same lock, programs, version and
SOURCE_DATE_EPOCH make the same files, bit by bit.

Keys: 'ssh-keygen -t ed25519' makes one for --sign-key; nodes trust its public
half by imageKeys in their node.yaml. For Secure Boot, --boot-key and --boot-cert
are an RSA key and its certificate, in PEM, which the firmware's db has; they sign
the kernel image, in disk and bundle, and the boot loader. --enrol is a directory
of 'writ image keys': the boot loader puts its keys into a firmware that has none,
by itself on a virtual machine, elsewhere when a person chooses it in the menu of
the loader (hold the space bar), or by itself with --enrol-force.`,
		Example: "  writ image build --version 1.2.3 --out bin/image\n  writ image build --version 1.2.3 --sign-key release_ed25519",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.config()
			if err != nil {
				return err
			}
			return runBuild(cmd.Context(), cfg, f.output == "json", cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.version, "version", strings.TrimPrefix(version, "v"), "`version` of the image")
	fl.StringVar(&f.lock, "lock", "image/packages.lock", "`file` that pins the packages")
	fl.StringVar(&f.cache, "cache", "", "`directory` that keeps packages; default: $WRIT_IMAGE_CACHE, or writ/image of the user's cache")
	fl.StringVar(&f.out, "out", "bin/image", "`directory` to write into")
	fl.StringVar(&f.programs, "programs", "", "`directory` of writ, containerd, containerd-shim-runc-v2 and init; default: that of this program")
	fl.StringVar(&f.key, "sign-key", "", "`file` of an Ed25519 private key of SSH to sign bundle and sums with")
	fl.StringVar(&f.bootKey, "boot-key", "", "`file` of a private key to sign for Secure Boot with")
	fl.StringVar(&f.bootCert, "boot-cert", "", "`file` of its certificate")
	fl.StringVar(&f.enrol, "enrol", "", "`directory` of PK.auth, KEK.auth and db.auth for a firmware without keys")
	fl.BoolVar(&f.enrolForce, "enrol-force", false, "enrol without a person; a machine whose own cards are signed by others may not start any more")
	fl.BoolVar(&f.fast, "fast", false, "compress little: for tests, a tenth of the time and some 20 % larger")
	outputFlag(cmd, &f.output)
	return cmd
}

// config reads what the flags name.
func (f buildFlags) config() (build.Config, error) {
	cfg := build.Config{Version: f.version, Out: f.out, Cache: f.cache}
	if f.fast {
		cfg.Level = bundle.Quick
	}
	var err error
	if cfg.Lock, err = readLock(f.lock); err != nil {
		return cfg, err
	}
	if cfg.Cache == "" {
		if cfg.Cache, err = lock.Dir(); err != nil {
			return cfg, err
		}
	}
	if f.programs == "" {
		self, err := os.Executable()
		if err != nil {
			return cfg, fmt.Errorf("find this program: %w", err)
		}
		f.programs = filepath.Dir(self)
	}
	in := func(name string) string { return filepath.Join(f.programs, name) }
	cfg.Programs = build.Programs{Writ: in("writ"), Containerd: in("containerd"), Shim: in("containerd-shim-runc-v2"), Init: in("init")}
	if cfg.Epoch, err = epoch(cfg.Lock); err != nil {
		return cfg, err
	}
	if f.key != "" {
		if cfg.Signer, err = readSigner(f.key); err != nil {
			return cfg, err
		}
	}
	if (f.bootKey == "") != (f.bootCert == "") {
		return cfg, usageError{errors.New("--boot-key and --boot-cert go together")}
	}
	if f.enrol != "" && f.bootKey == "" || f.enrolForce && f.enrol == "" {
		return cfg, usageError{errors.New("--enrol needs --boot-key and --boot-cert, and --enrol-force needs --enrol")}
	}
	if f.bootKey != "" {
		if cfg.SecureBoot, err = readSecureBoot(f.bootKey, f.bootCert); err != nil {
			return cfg, err
		}
		cfg.SecureBoot.EnrolForce = f.enrolForce
	}
	if f.enrol != "" {
		cfg.SecureBoot.Enrol, err = readEnrolment(f.enrol, cfg.SecureBoot.Certificate)
	}
	return cfg, err
}

// epoch is SOURCE_DATE_EPOCH or, without it, the day of the newest package
// index that the lock has seen: both are the same for the same commit.
func epoch(l *lock.Lock) (time.Time, error) {
	if s := os.Getenv("SOURCE_DATE_EPOCH"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n <= 0 {
			return time.Time{}, usageError{fmt.Errorf("SOURCE_DATE_EPOCH=%q: must be seconds since 1970", s)}
		}
		return time.Unix(n, 0), nil
	}
	var newest time.Time
	for _, s := range l.Suites {
		if s.Date.After(newest) {
			newest = s.Date
		}
	}
	return newest, nil
}

func readLock(path string) (*lock.Lock, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read lock: %w: run this in the sources of Writ, or name one with --lock", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read lock: %w", err)
	}
	defer f.Close()
	return lock.Parse(path, f)
}

func readSigner(path string) (ssh.Signer, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --sign-key: %w", err)
	}
	s, err := ssh.ParsePrivateKey(b)
	if err != nil {
		return nil, fmt.Errorf("read --sign-key %s: %w", path, err)
	}
	if t := s.PublicKey().Type(); t != ssh.KeyAlgoED25519 {
		return nil, usageError{fmt.Errorf("--sign-key %s: is of the type %s; make one by 'ssh-keygen -t ed25519'", path, t)}
	}
	return s, nil
}

func readSecureBoot(keyFile, certFile string) (*build.SecureBoot, error) {
	block := func(path string) ([]byte, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		p, _ := pem.Decode(b)
		if p == nil {
			return nil, fmt.Errorf("%s is no PEM file", path)
		}
		return p.Bytes, nil
	}
	k, err := block(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read --boot-key: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(k)
	if err != nil {
		if parsed, err = x509.ParsePKCS1PrivateKey(k); err != nil {
			return nil, fmt.Errorf("read --boot-key %s: %w", keyFile, err)
		}
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("read --boot-key %s: it cannot sign", keyFile)
	}
	c, err := block(certFile)
	if err != nil {
		return nil, fmt.Errorf("read --boot-cert: %w", err)
	}
	cert, err := x509.ParseCertificate(c)
	if err != nil {
		return nil, fmt.Errorf("read --boot-cert %s: %w", certFile, err)
	}
	return &build.SecureBoot{Key: signer, Certificate: cert}, nil
}

func runBuild(ctx context.Context, cfg build.Config, asJSON bool, out io.Writer) error {
	steps := progress.New(os.Stderr, terminal())
	last := ""
	cfg.Step = func(step, detail string) {
		if step != last {
			last = step
			steps.Start(step, detail)
			return
		}
		steps.Detail(detail)
	}
	r, err := build.Build(ctx, cfg)
	if err != nil {
		steps.Fail("")
		return err
	}
	steps.Done("")
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	fmt.Fprintf(out, "\nWhat the root file system is made of, unpacked:\n\n")
	var rest, sum int64
	for i, s := range r.Sizes {
		sum += s.Bytes
		if i < 12 {
			fmt.Fprintf(out, "  %8.1f MB  %s\n", float64(s.Bytes)/1e6, s.Origin)
		} else {
			rest += s.Bytes
		}
	}
	fmt.Fprintf(out, "  %8.1f MB  others\n  %8.1f MB  together\n\nWhat was made, in %s:\n\n", float64(rest)/1e6, float64(sum)/1e6, cfg.Out)
	for _, f := range r.Files {
		fmt.Fprintf(out, "  %8.1f MB  %s\n", float64(f.Size)/1e6, f.Name)
	}
	fmt.Fprintf(out, "\nroot hash %s\n", r.RootHash)
	return nil
}
