package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// Parts are what a bundle is made of. The readers are read twice.
type Parts struct {
	Version  string
	Arch     string
	RootHash string
	// Created is SOURCE_DATE_EPOCH: the same parts make the same bundle.
	Created time.Time
	// Root is what Pack has made of RootSize bytes.
	Root        *io.SectionReader
	RootSize    int64
	Verity, UKI *io.SectionReader
}

// Write makes a bundle. Without a signer it is not signed, and only its digest
// can vouch for it. The signer is of Ed25519, whose signatures of one manifest are
// always the same.
func Write(w io.Writer, p Parts, signer ssh.Signer) (*Manifest, error) {
	files := []*io.SectionReader{p.Root, p.Verity, p.UKI}
	m, err := p.manifest(files)
	if err != nil {
		return nil, err
	}
	b, err := m.encode()
	if err != nil {
		return nil, err
	}
	out := &writer{w: w, created: m.Created}
	out.file(manifestName, int64(len(b)), bytes.NewReader(b))
	if signer != nil {
		sig, err := sign(b, signer)
		if err != nil {
			return nil, err
		}
		out.file(signatureName, int64(len(sig)), bytes.NewReader(sig))
	}
	for i, f := range m.Files {
		out.file(f.Name, f.Size, io.NewSectionReader(files[i], 0, f.Size))
	}
	out.zeros(trailer)
	if out.err != nil {
		return nil, fmt.Errorf("write bundle: %w", out.err)
	}
	return m, nil
}

func (p Parts) manifest(files []*io.SectionReader) (*Manifest, error) {
	m := &Manifest{Format: Format, Version: p.Version, Arch: p.Arch, RootHash: p.RootHash, Created: p.Created.UTC()}
	for i, r := range files {
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(r, 0, r.Size())); err != nil {
			return nil, fmt.Errorf("read %s: %w", contents[i].name, err)
		}
		m.Files = append(m.Files, File{Name: contents[i].name, Size: r.Size(), SHA256: hex.EncodeToString(h.Sum(nil))})
	}
	m.Files[0].Unpacked = p.RootSize
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("make bundle: %w", err)
	}
	return m, nil
}

func sign(manifest []byte, signer ssh.Signer) ([]byte, error) {
	if t := signer.PublicKey().Type(); t != ssh.KeyAlgoED25519 {
		return nil, fmt.Errorf("sign bundle: the key is of the type %s, and bundles are signed with %s", t, ssh.KeyAlgoED25519)
	}
	sig, err := sshsig.Sign(bytes.NewReader(manifest), signer, sshsig.HashSHA512, Namespace)
	if err != nil {
		return nil, fmt.Errorf("sign bundle: %w", err)
	}
	return sshsig.Armor(sig), nil
}

// writer writes files, and keeps the first error.
type writer struct {
	w       io.Writer
	created time.Time
	err     error
}

func (w *writer) file(name string, size int64, r io.Reader) {
	if w.err != nil {
		return
	}
	h, err := header(name, size, w.created)
	if err != nil {
		w.err = err
		return
	}
	if _, w.err = w.w.Write(h); w.err != nil {
		return
	}
	n, err := io.Copy(w.w, r)
	if err == nil && n != size {
		err = errors.New(name + " became shorter while it was read")
	}
	w.err = err
	w.zeros(padding(size))
}

func (w *writer) zeros(n int64) {
	if w.err == nil {
		_, w.err = w.w.Write(make([]byte, n))
	}
}
