package imagecmd

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/hiddeco/sshsig"

	"github.com/writ-os/writ/image/build"
	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/verity"
)

// Trust is what an image is proven against.
type Trust struct {
	Keys   bundle.Keys // none asks for no signature
	Digest string      // of a bundle, sha256:...
}

// Proof is what was found true of an image.
type Proof struct {
	Path   string   `json:"path"`
	Signer string   `json:"signer,omitempty"`
	Proven []string `json:"proven"`
}

// Verify proves a disk, a bundle, or a directory that a build has made. The
// error says what is not true.
func Verify(path string, t Trust) (*Proof, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("verify image: %w", err)
	}
	p := &Proof{Path: path}
	if info.IsDir() {
		return p, p.directory(t)
	}
	f, kind, size, err := open(path, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("verify image: %w", err)
	}
	defer f.Close()
	if kind == Disk {
		err = p.disk(f, size, t)
	} else {
		err = p.bundle(f, size, t)
	}
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", path, err)
	}
	return p, nil
}

func (p *Proof) add(format string, a ...any) { p.Proven = append(p.Proven, fmt.Sprintf(format, a...)) }

// disk proves that the root file system is the one that the kernel will verify.
func (p *Proof) disk(f io.ReaderAt, size int64, t Trust) error {
	if len(t.Keys) > 0 || t.Digest != "" {
		return errors.New("a disk has no signature of its own: verify the directory that it came with, or its bundle")
	}
	k, err := kernel(f, size)
	if err != nil {
		return err
	}
	hash, err := hex.DecodeString(rootHash(k.Cmdline))
	if err != nil || len(hash) != sha256.Size {
		return errors.New("its kernel has no root hash on the command line")
	}
	table, err := gpt.Parse(f, size)
	if err != nil {
		return err
	}
	rootGUID, treeGUID, err := gpt.VerityGUIDs(hash)
	if err != nil {
		return err
	}
	var root, tree *io.SectionReader
	for _, part := range table.Partitions {
		switch {
		case part.Type == gpt.TypeRootX8664 && part.GUID == rootGUID:
			root = section(f, part)
		case part.Type == gpt.TypeRootX8664Verity && part.GUID == treeGUID:
			tree = section(f, part)
		}
	}
	if root == nil || tree == nil {
		return fmt.Errorf("no pair of partitions belongs to the root hash of its kernel, %x", hash)
	}
	if err := verity.Verify(root, tree, verity.Hash(hash)); err != nil {
		return err
	}
	p.add("every block of the root file system belongs to the root hash %x, which its kernel has", hash)
	return nil
}

// bundle reads a whole bundle.
func (p *Proof) bundle(f io.ReaderAt, size int64, t Trust) error {
	if len(t.Keys) == 0 && t.Digest == "" {
		return errors.New("nothing vouches for a bundle by itself: give --keys or --digest")
	}
	b, err := bundle.Read(io.NewSectionReader(f, 0, size), bundle.Trust{Keys: t.Keys, Digest: t.Digest, Size: size})
	if err != nil {
		return err
	}
	if err := b.Each(func(_ bundle.File, r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }); err != nil {
		return err
	}
	if p.Signer = b.Signer(); p.Signer != "" {
		p.add("its manifest is signed by %s", p.Signer)
	}
	if t.Digest != "" {
		p.add("its digest is %s", t.Digest)
	}
	p.add("all files are what the manifest of %s names", b.Manifest().Version)
	return nil
}

const maxSums = 1 << 20

// directory proves the sums of a build.
func (p *Proof) directory(t Trust) error {
	sums, err := readSmall(filepath.Join(p.Path, build.SumsFile))
	if err != nil {
		return fmt.Errorf("verify %s: %w", p.Path, err)
	}
	if len(t.Keys) > 0 {
		if err := p.signature(sums, t.Keys); err != nil {
			return fmt.Errorf("verify %s: %w", p.Path, err)
		}
	}
	sc := bufio.NewScanner(bytes.NewReader(sums))
	n := 0
	for ; sc.Scan(); n++ {
		sum, name, ok := strings.Cut(sc.Text(), "  ")
		if !ok || name != filepath.Base(name) {
			return fmt.Errorf("verify %s: line %d of %s is not SUM  NAME", p.Path, n+1, build.SumsFile)
		}
		if err := checkSum(filepath.Join(p.Path, name), sum); err != nil {
			return fmt.Errorf("verify %s: %w", p.Path, err)
		}
	}
	if n == 0 {
		return fmt.Errorf("verify %s: %s names no file", p.Path, build.SumsFile)
	}
	p.add("%d files are what %s names", n, build.SumsFile)
	return sc.Err()
}

func (p *Proof) signature(sums []byte, keys bundle.Keys) error {
	armored, err := readSmall(filepath.Join(p.Path, build.SignatureFile))
	if err != nil {
		return fmt.Errorf("%w: it was built without a key", err)
	}
	sig, err := sshsig.Unarmor(armored)
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", build.SignatureFile, err)
	}
	for _, k := range keys {
		if bytes.Equal(k.Public.Marshal(), sig.PublicKey.Marshal()) {
			if err := sshsig.Verify(bytes.NewReader(sums), sig, k.Public, sig.HashAlgorithm, bundle.Namespace); err != nil {
				return fmt.Errorf("the signature of %s does not belong to %s", k.Principal, build.SumsFile)
			}
			p.Signer = k.Principal
			p.add("%s is signed by %s", build.SumsFile, k.Principal)
			return nil
		}
	}
	return fmt.Errorf("%s is signed by none of the keys", build.SumsFile)
}

func checkSum(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%s is damaged, or another one: its digest is %s", path, got)
	}
	return nil
}

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSums+1))
	if err == nil && len(b) > maxSums {
		err = fmt.Errorf("%s has more than %d bytes", path, maxSums)
	}
	return b, err
}
