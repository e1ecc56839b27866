package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/writ-os/writ/controlplane/durable"
)

// Pulls remembers which credentials an image was pulled with, so that a private
// image that is on the node serves those alone who may have it (KEP-2535,
// EnsureSecretPulledImages). Others are let in once a registry has let them in.
//
// It keeps its records in a directory and reads them when asked: they outlive
// the agent. As upstream's default policy, NeverVerifyPreloadedImages, has it,
// an image that this node did not pull (imported, or there before there were
// records) is everybody's. What was begun and not recorded is nobody's.
type Pulls struct {
	dir string
	mu  sync.Mutex
}

// NewPulls keeps records below a directory, which it makes when it must.
func NewPulls(dir string) *Pulls { return &Pulls{dir: dir} }

// pulled is the record of one image.
type pulled struct {
	ImageID string `json:"imageID"`
	// Anybody says that it was pulled without the credentials of a pod.
	Anybody bool `json:"anybody,omitempty"`
	// Hashes are those of the credentials that a registry has accepted for it.
	Hashes []string `json:"credentialHashes,omitempty"`
}

// hash tells credentials apart without keeping them.
func (c Credentials) hash() string {
	b, _ := json.Marshal(c)
	return digest(string(b))
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func (p *Pulls) record(imageID string) string {
	return filepath.Join(p.dir, "pulled", digest(imageID)+".json")
}

func (p *Pulls) intent(ref string) string { return filepath.Join(p.dir, "pulling", digest(ref)) }

// MayUse says whether an image that is on the node may be used by a pod with
// these credentials without asking a registry. creds is called when it matters.
func (p *Pulls) MayUse(ref string, img Image, creds func() ([]Credentials, error)) (bool, error) {
	if p == nil {
		return true, nil
	}
	p.mu.Lock()
	rec, err := p.read(img.ID)
	p.mu.Unlock()
	if errors.Is(err, fs.ErrNotExist) {
		_, err := os.Lstat(p.intent(ref))
		return errors.Is(err, fs.ErrNotExist), nil
	}
	if err != nil {
		return false, nil //nolint:nilerr // a record that cannot be read lets nobody in: a registry has to
	}
	if rec.Anybody {
		return true, nil
	}
	have, err := creds()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(have, func(c Credentials) bool { return slices.Contains(rec.Hashes, c.hash()) }), nil
}

// Begin notes that a reference is about to be pulled.
func (p *Pulls) Begin(ref string) error {
	if p == nil {
		return nil
	}
	path := p.intent(ref)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("note pull: %w", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return fmt.Errorf("note pull: %w", err)
	}
	return nil
}

// Done notes that a reference was pulled, with img.With.
func (p *Pulls) Done(ref string, img Image) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	rec, err := p.read(img.ID)
	if err != nil {
		rec = pulled{ImageID: img.ID}
	}
	if img.With == (Credentials{}) {
		rec.Anybody, rec.Hashes = true, nil
	} else if h := img.With.hash(); !rec.Anybody && !slices.Contains(rec.Hashes, h) {
		rec.Hashes = append(rec.Hashes, h)
	}
	if err := p.write(rec); err != nil {
		return fmt.Errorf("record pull: %w", err)
	}
	if err := os.Remove(p.intent(ref)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record pull: %w", err)
	}
	return nil
}

// known says whether there is a record of an image.
func (p *Pulls) known(img Image) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.read(img.ID)
	return err == nil
}

// undo takes Begin back: the pull has failed, and an image that somebody imports
// by this name later is everybody's.
func (p *Pulls) undo(ref string) {
	if p != nil {
		_ = os.Remove(p.intent(ref)) // one that stays costs a question to the registry
	}
}

// Forget drops the record of an image that was removed.
func (p *Pulls) Forget(imageID string) error {
	if p == nil {
		return nil
	}
	if err := os.Remove(p.record(imageID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget pull: %w", err)
	}
	return nil
}

func (p *Pulls) read(imageID string) (pulled, error) {
	var rec pulled
	b, err := os.ReadFile(p.record(imageID))
	if err == nil {
		err = json.Unmarshal(b, &rec)
	}
	if err == nil && rec.ImageID != imageID {
		err = fmt.Errorf("record of another image, %s", rec.ImageID)
	}
	return rec, err
}

func (p *Pulls) write(rec pulled) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	path := p.record(rec.ImageID)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(path, b, 0o600)
}
