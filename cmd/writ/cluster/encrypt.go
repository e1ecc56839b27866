package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/writ-os/writ/cmd/writ/member"
	"github.com/writ-os/writ/controlplane/durable"
)

// Encryption at rest is on without a flag: Secrets lie in the store under a key of
// the cluster's own, in a folder beside it that no backup of the store holds. It
// keeps them from whoever has a backup, a snapshot or the store's files; what
// keeps the key is the mode of the file, and the encryption of the disk under it.
//
// The first server makes the key before there is a store, and gives it to those
// that join as any other configuration; they never make one.
const (
	keysDir    = "keys"
	ownKey     = keysDir + "/encryption.yaml"
	ownPlain   = keysDir + "/plain.yaml"
	NoEncrypts = "none" // as --encryption-provider-config: values are stored in plain
)

// revertible is how long the data of a version without this stays in plain after
// the first start of this one: an update that is taken back must be able to read
// what it finds.
const revertible = 24 * time.Hour

// encryptionText is the configuration: Secrets, as upstream advises, under
// secretbox (XSalsa20 and Poly1305), whose nonces may be random for as many values
// as there will ever be.
// Without a key all is stored in plain, by a configuration that can be given one.
func encryptionText(key string, plain bool) []byte {
	box := "  - secretbox:\n      keys:\n      - name: own\n        secret: " + key + "\n"
	identity := "  - identity: {}\n"
	first, second := box, identity
	if plain {
		first, second = identity, box
	}
	if key == "" {
		first, second = identity, ""
	}
	return []byte("# What lies in ../store is encrypted with this key. Without it no Secret can be read: keep a copy, apart from backups of the store.\n" +
		"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n" + first + second)
}

// chooseEncryption decides by which configuration values are stored, before there
// is a store.
func (p *ControlPlane) chooseEncryption(now time.Time) error {
	_, err := os.Lstat(p.cfg.file(ownKey))
	have := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for the key of what is stored: %w", err)
	}
	file := &p.cfg.API.EncryptionFile
	switch {
	case *file == NoEncrypts && !have:
		*file = ""
		return nil
	case *file == NoEncrypts:
		*file, err = p.plainAgain()
		return err
	case *file != "":
		return nil
	case have:
		*file = p.cfg.file(ownKey)
		return nil
	case p.member != nil:
		// It was given none: two servers with a key each could not read each other.
		// 'writ member encrypt' gives one to all.
		if err := os.MkdirAll(p.cfg.file(keysDir), 0o700); err != nil {
			return fmt.Errorf("make the folder of keys: %w", err)
		}
		p.log("encryption").Info("Secrets lie in plain in the store of these servers: 'writ member encrypt' encrypts them")
		*file = p.cfg.file(ownKey)
		return durable.WriteFile(*file, encryptionText("", true), 0o600)
	}
	due, err := p.mayEncrypt(now)
	if err != nil || !due {
		return err
	}
	key, err := newKey()
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	if err := durable.WriteFile(p.cfg.file(ownKey), encryptionText(key, false), 0o600); err != nil {
		return fmt.Errorf("write the key of what is stored: %w", err)
	}
	p.log("encryption").Info("Secrets are encrypted in the store from now on", "key", p.cfg.file(ownKey))
	*file = p.cfg.file(ownKey)
	return nil
}

// mayEncrypt says whether a key may be made: for a cluster that begins, and for
// one of a version before once that is not likely to come back. It makes the
// folder of keys, whose age tells.
func (p *ControlPlane) mayEncrypt(now time.Time) (bool, error) {
	begun, err := member.HasData(p.cfg.DataDir)
	if err != nil {
		return false, err
	}
	dir := p.cfg.file(keysDir)
	made, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(dir, 0o700); err == nil {
			made, err = os.Lstat(dir)
		}
	}
	if err != nil {
		return false, fmt.Errorf("make the folder of keys: %w", err)
	}
	if begun && now.Sub(made.ModTime()) < revertible {
		p.log("encryption").Info("Secrets lie in plain in the store: they are encrypted by the first start after a day, until when the version before can be had back")
		return false, nil
	}
	return true, nil
}

// plainAgain is a configuration by which all is stored in plain, and what is
// encrypted can be read: it is stored anew in the background.
func (p *ControlPlane) plainAgain() (string, error) {
	own, err := os.ReadFile(p.cfg.file(ownKey))
	if err != nil {
		return "", fmt.Errorf("read the key of what is stored: %w", err)
	}
	k, err := keysIn(own)
	switch {
	case err != nil:
		return "", fmt.Errorf("read %s: %w", p.cfg.file(ownKey), err)
	case k.Foreign != "":
		return "", fmt.Errorf("read %s: it was changed: give it with --encryption-provider-config", p.cfg.file(ownKey))
	case k.Key == "":
		return "", nil
	}
	return p.cfg.file(ownPlain), durable.WriteFile(p.cfg.file(ownPlain), encryptionText(k.Key, true), 0o600)
}
