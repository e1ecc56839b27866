// Package build makes the node image: of locked packages and our own programs a
// root file system, its hash tree, a kernel image, a disk to start machines
// from, and a bundle to update them with; beside them a bill of materials and
// signed sums.
//
// It watches nothing. It owns the directory it writes into. It promises that the
// same lock, programs, version and epoch make the same files, bit by bit,
// on any machine and as any user, and that a directory has all files or the ones
// from before.
package build

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/Masterminds/semver/v3"
	"golang.org/x/crypto/ssh"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/lock"
	"github.com/writ-os/writ/image/tree"
	"github.com/writ-os/writ/image/uki"
)

// Arch is the only one that is built, as Go calls it.
const Arch = "amd64"

// Config is everything that a build needs from outside.
type Config struct {
	// Version of the image, as a NodeImage names it: 1.2.3.
	Version string
	Lock    *lock.Lock
	Cache   string // directory of packages and tools
	Out     string // directory of the result; it is made
	// Programs are the files of our own programs.
	Programs Programs
	// Epoch is the time of every file: SOURCE_DATE_EPOCH.
	Epoch time.Time
	// Signer signs the bundle and the sums by an Ed25519 key; nil leaves that out.
	Signer ssh.Signer
	// SecureBoot signs what the firmware starts; nil leaves that out.
	SecureBoot *SecureBoot
	// Level is how well the results are packed.
	Level bundle.Level
	// Step is told what the build does. May be nil.
	Step func(step, detail string)
}

// Programs are files that were built before.
type Programs struct {
	Writ, Containerd, Shim, Init string
}

// SecureBoot is a key of the firmware's db.
type SecureBoot struct {
	Key         crypto.Signer
	Certificate *x509.Certificate
	// Enrol are variables that the boot loader puts into a firmware without keys;
	// nil for none. It does so by itself on virtual machines, elsewhere when a
	// person chooses it in the menu, or where EnrolForce says so.
	Enrol      *uki.Enrolment
	EnrolForce bool
}

// File is one of the result.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Result is what was built.
type Result struct {
	Version  string        `json:"version"`
	RootHash string        `json:"rootHash"`
	Kernel   string        `json:"kernel"`
	Files    []File        `json:"files"`
	Sizes    []tree.Size   `json:"sizes"` // of the root file system, unpacked, by origin
	Steps    []Measurement `json:"steps"`
	// Missing are libraries that programs would load if they were there.
	Missing []string `json:"missing,omitempty"`
}

// Measurement says how long a step took.
type Measurement struct {
	Step   string  `json:"step"`
	Millis float64 `json:"ms"`
}

// The names of the results, after "writ-VERSION-amd64".
const (
	rawSuffix    = ".raw.zst"
	qcow2Suffix  = ".qcow2"
	bundleSuffix = ".bundle"
	sbomSuffix   = ".spdx.json"

	// SumsFile and SignatureFile are for all of them.
	SumsFile      = "SHA256SUMS"
	SignatureFile = "SHA256SUMS.sig"
)

func (c Config) check() error {
	_, err := semver.StrictNewVersion(c.Version)
	switch {
	case err != nil || len(c.Version) > bundle.MaxVersion:
		return fmt.Errorf("version %q must be a semantic version like 1.4.2 or 1.5.0-rc.1, without a leading v, of at most %d characters: NodeImages name it", c.Version, bundle.MaxVersion)
	case c.Lock == nil || len(c.Lock.Packages) == 0:
		return errors.New("there is no lock, or no package in it")
	case c.Epoch.IsZero() || c.Epoch.Unix() < 0:
		return errors.New("there is no epoch: set SOURCE_DATE_EPOCH")
	case c.Out == "" || c.Cache == "":
		return errors.New("there is no directory for the cache or the result")
	}
	for name, path := range map[string]string{"writ": c.Programs.Writ, "containerd": c.Programs.Containerd, "containerd-shim-runc-v2": c.Programs.Shim, "init": c.Programs.Init} {
		if err := checkProgram(path); err != nil {
			return fmt.Errorf("the program %s: %w: build it by `make image`", name, err)
		}
	}
	return nil
}

// Build makes everything.
func Build(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	if err := os.MkdirAll(cfg.Out, 0o755); err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	// Beside the result, so that it can be renamed into place.
	work, err := os.MkdirTemp(cfg.Out, ".build-")
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	defer os.RemoveAll(work)
	j := &job{cfg: cfg, work: work, result: &Result{Version: cfg.Version}}
	for _, s := range []struct {
		name string
		do   func(context.Context) (detail string, err error)
	}{
		{"packages", j.fetch}, {"unpack", j.load}, {"files", j.tree}, {"root", j.erofs}, {"hash tree", j.verity},
		{"initrd", j.initrd}, {"kernel image", j.uki}, {"disk", j.disk}, {"bundle", j.bundle}, {"materials", j.materials}, {"sums", j.sums},
	} {
		begin := time.Now()
		j.step(s.name, "")
		detail, err := s.do(ctx)
		if err != nil {
			return nil, fmt.Errorf("build image: %w", err)
		}
		j.step(s.name, detail)
		j.result.Steps = append(j.result.Steps, Measurement{s.name, float64(time.Since(begin).Microseconds()) / 1000})
	}
	if err := j.publish(); err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	return j.result, nil
}

func (j *job) step(name, detail string) {
	if j.cfg.Step != nil {
		j.cfg.Step(name, detail)
	}
}

// name is that of a result.
func (j *job) name(suffix string) string { return "writ-" + j.cfg.Version + "-" + Arch + suffix }

// path is where a file lies while it is made.
func (j *job) path(name string) string { return filepath.Join(j.work, name) }

// uuid is one that is given by the version and what it is for.
func (j *job) uuid(purpose string) string {
	sum := sha256.Sum256([]byte("writ " + purpose + " " + j.cfg.Version))
	sum[6], sum[8] = sum[6]&0x0f|0x40, sum[8]&0x3f|0x80
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
