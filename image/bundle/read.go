package bundle

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"
)

// Trust says why a bundle may be believed. At least one of Keys and Digest is
// needed; both must hold where both are given.
type Trust struct {
	// Keys, of which one must have signed the manifest.
	Keys Keys
	// Digest is that of the whole file: sha256:<64 hexadecimal digits>.
	Digest string
	// Size of the whole file in bytes, where it is declared.
	Size int64
	// Version and Arch that it must be for, where they are declared: a bundle
	// that is signed and older does not pass for the one that was asked for.
	Version, Arch string
}

// Reader reads one bundle from its beginning to its end, once.
type Reader struct {
	r        io.Reader
	n        int64 // bytes read
	hash     hash.Hash
	trust    Trust
	manifest *Manifest
	signer   string
	created  time.Time
	pending  []byte // the header that was read to see what it is
}

// Read reads the manifest of a bundle and judges its signature, if keys are
// trusted. Where a digest alone vouches, what the manifest says is not true
// before Each has returned: only then has the whole file been hashed.
//
// Errors for which Refused holds are the bundle's; the others come from r.
func Read(r io.Reader, t Trust) (*Reader, error) {
	b := &Reader{hash: sha256.New(), trust: t}
	if t.Digest == "" && len(t.Keys) == 0 {
		return nil, errors.New("read bundle: neither a digest nor a key is trusted")
	}
	if t.Digest != "" && !isSum(strings.TrimPrefix(t.Digest, digestPrefix)) {
		return nil, fmt.Errorf("read bundle: the digest %.80q must be sha256: and 64 hexadecimal digits", t.Digest)
	}
	b.r = io.TeeReader(r, b.hash)
	raw, err := b.small(manifestName, maxManifest)
	if err != nil {
		return nil, err
	}
	sig, err := b.optional(signatureName, maxSignature)
	if err != nil {
		return nil, err
	}
	// The signature goes before all that the manifest says.
	if len(t.Keys) > 0 {
		if sig == nil {
			return nil, refuse("it is not signed")
		}
		k, err := t.Keys.verify(raw, sig)
		if err != nil {
			return nil, err
		}
		b.signer = k.Principal
	}
	if b.manifest, err = parseManifest(raw); err != nil {
		return nil, err
	}
	if !b.manifest.Created.Equal(b.created) {
		return nil, refuse("its headers have another time than its manifest")
	}
	switch m := b.manifest; {
	case t.Version != "" && m.Version != t.Version:
		return nil, refuse("it has version %s, and %s is declared", m.Version, t.Version)
	case t.Arch != "" && m.Arch != t.Arch:
		return nil, refuse("it is for %s, and this machine is %s", m.Arch, t.Arch)
	}
	if n := b.total(); t.Size > 0 && n != t.Size {
		return nil, refuse("its manifest makes a file of %d bytes, and %d are declared", n, t.Size)
	}
	return b, nil
}

const digestPrefix = "sha256:"

// Manifest is what the bundle says of itself.
func (b *Reader) Manifest() *Manifest { return b.manifest }

// Signer is the principal whose signature was found good; "" when no keys were
// given.
func (b *Reader) Signer() string { return b.signer }

// total is how long the file must be.
func (b *Reader) total() int64 {
	n := b.n + trailer
	for _, f := range b.manifest.Files {
		n += block + f.Size + padding(f.Size)
	}
	return n - int64(len(b.pending))
}

// Each hands every file to fn, in order, and returns nil when all of them and
// the whole bundle are what they must be. What fn has made of them counts for
// nothing before that. It can be called once.
func (b *Reader) Each(fn func(f File, r io.Reader) error) error {
	for _, f := range b.manifest.Files {
		if err := b.each(f, fn); err != nil {
			return err
		}
	}
	return b.end()
}

func (b *Reader) each(f File, fn func(File, io.Reader) error) error {
	if err := b.expect(f.Name, f.Size); err != nil {
		return err
	}
	sum := sha256.New()
	body := &body{b: b, name: f.Name, left: f.Size, sum: sum}
	shown := body.show(f, fn)
	if shown != nil && !Refused(shown) {
		return shown
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return refuse("its %s is not what its manifest says: the sum differs", f.Name)
	}
	if shown != nil {
		return shown
	}
	return b.zeros(padding(f.Size), f.Name)
}

// show hands a file to fn, unpacked. Where reading it failed, that is why fn did.
func (r *body) show(f File, fn func(File, io.Reader) error) error {
	if f.Unpacked == 0 {
		err := fn(f, r)
		return because(r.err, err)
	}
	u, err := newUnpacker(r, f)
	if err != nil {
		return err
	}
	defer u.dec.Close()
	if err = fn(f, u); errors.Is(u.err, io.EOF) {
		return err
	}
	return because(u.err, err)
}

// because is the error of reading, where there is one, and else that of the reader.
func because(read, err error) error {
	if read != nil {
		return read
	}
	return err
}

// end checks what follows the last file, and the digest of all.
func (b *Reader) end() error {
	if err := b.zeros(trailer, "the end"); err != nil {
		return err
	}
	switch n, err := io.ReadFull(b.r, make([]byte, 1)); {
	case n > 0:
		return refuse("something follows its end")
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("read bundle: %w", err)
	}
	if b.trust.Digest == "" {
		return nil
	}
	got := digestPrefix + hex.EncodeToString(b.hash.Sum(nil))
	if subtle.ConstantTimeCompare([]byte(got), []byte(b.trust.Digest)) != 1 {
		return refuse("its digest is %s, and %s is declared", got, b.trust.Digest)
	}
	return nil
}
