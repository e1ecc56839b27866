package secret

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"github.com/ProtonMail/go-crypto/openpgp"
	"golang.org/x/crypto/ssh"
)

// The names under which a Secret holds keys. They are those of Flux.
const (
	ageSuffix = ".agekey" // age identities, one a line, or an SSH private key
	pgpSuffix = ".asc"    // armored OpenPGP private keys
)

// maxKeys bounds the identities of one kind: each is tried on each file.
const maxKeys = 64

// Keyring holds the private keys that open files. It does not change after New
// and may be used by several goroutines. A nil Keyring opens nothing and says
// so in findings.
type Keyring struct {
	age []age.Identity
	pgp openpgp.EntityList
}

// New reads the keys of a Secret: age identities and SSH private keys under
// names that end in .agekey, armored OpenPGP private keys under names that end
// in .asc. Other names are left alone. The error names all keys that cannot be
// used and never says what is in them.
func New(data map[string][]byte) (*Keyring, error) {
	k := &Keyring{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(data)) {
		var err error
		switch {
		case strings.HasSuffix(name, ageSuffix):
			err = k.addAge(data[name])
		case strings.HasSuffix(name, pgpSuffix):
			err = k.addPGP(data[name])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read key %s: %w", name, err))
		}
	}
	if len(errs) == 0 && len(k.age) == 0 && len(k.pgp) == 0 {
		errs = append(errs, errors.New("the secret holds no key: age identities go under a name that ends in .agekey, armored OpenPGP private keys under one that ends in .asc"))
	}
	if len(k.age) > maxKeys || len(k.pgp) > maxKeys {
		errs = append(errs, fmt.Errorf("the secret holds more than %d keys of one kind", maxKeys))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *Keyring) addAge(data []byte) error {
	if bytes.Contains(data, []byte("PRIVATE KEY-----")) {
		id, err := agessh.ParseIdentity(data)
		var missing *ssh.PassphraseMissingError
		switch {
		case errors.As(err, &missing):
			return errors.New("the SSH key is protected by a passphrase; store it without")
		case err != nil:
			return errors.New("it is no SSH private key of type ed25519 or rsa")
		}
		k.age = append(k.age, id)
		return nil
	}
	n, found := 0, false
	for line := range bytes.Lines(data) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		ids, err := age.ParseIdentities(bytes.NewReader(line))
		if err != nil {
			// The library's words may quote the key.
			return fmt.Errorf("line %d is no age identity: it must begin with AGE-SECRET-KEY-1 or AGE-SECRET-KEY-PQ-1", n)
		}
		k.age, found = append(k.age, ids...), true
	}
	if !found {
		return errors.New("it holds no age identity")
	}
	return nil
}

func (k *Keyring) addPGP(data []byte) error {
	list, err := readArmoredKeys(data)
	if err != nil || len(list) == 0 {
		return errors.New("it is no armored OpenPGP private key: make one with gpg --export-secret-keys --armor")
	}
	for _, e := range list {
		if !hasPrivateKey(e) {
			return fmt.Errorf("the OpenPGP key %s has no private part: export it with --export-secret-keys", e.PrimaryKey.KeyIdString())
		}
		if locked(e) {
			return fmt.Errorf("the OpenPGP key %s is protected by a passphrase; export it without", e.PrimaryKey.KeyIdString())
		}
	}
	k.pgp = append(k.pgp, list...)
	return nil
}

// readArmoredKeys reads the keys of all armored blocks of a text.
func readArmoredKeys(data []byte) (list openpgp.EntityList, err error) {
	defer calm(&err)
	const begin = "-----BEGIN PGP "
	for {
		at := bytes.Index(data, []byte(begin))
		if at < 0 {
			return list, nil
		}
		more, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(data[at:]))
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
		data = data[at+len(begin):]
	}
}

// calm turns a panic of the OpenPGP library into an error: packets are input,
// and input must not end the process.
func calm(err *error) {
	if p := recover(); p != nil {
		*err = errors.New("the OpenPGP packets are malformed")
	}
}

func hasPrivateKey(e *openpgp.Entity) bool {
	if e.PrivateKey != nil {
		return true
	}
	return slices.ContainsFunc(e.Subkeys, func(s openpgp.Subkey) bool { return s.PrivateKey != nil })
}

func locked(e *openpgp.Entity) bool {
	if e.PrivateKey != nil && e.PrivateKey.Encrypted && !e.PrivateKey.Dummy() {
		return true
	}
	return slices.ContainsFunc(e.Subkeys, func(s openpgp.Subkey) bool {
		return s.PrivateKey != nil && s.PrivateKey.Encrypted && !s.PrivateKey.Dummy()
	})
}
