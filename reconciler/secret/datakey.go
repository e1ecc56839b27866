package secret

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/ProtonMail/go-crypto/openpgp"
	pgparmor "github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// maxAttempts bounds the wrapped data keys that are tried for one file.
const maxAttempts = 32

// dataKey opens the first copy of the data key that one of our keys fits: age
// before OpenPGP, as SOPS does.
func (k *Keyring) dataKey(m *metadata) ([]byte, bool) {
	if k == nil {
		return nil, false
	}
	tries := 0
	for _, r := range m.age {
		if tries++; tries > maxAttempts || len(k.age) == 0 {
			break
		}
		if key, err := k.openAge([]byte(r.enc), keySize+1); err == nil && len(key) == keySize {
			return key, true
		}
	}
	tries = 0
	for _, r := range m.pgp {
		if tries++; tries > maxAttempts || len(k.pgp) == 0 {
			break
		}
		if key, err := k.openPGP(r.enc); err == nil && len(key) == keySize {
			return key, true
		}
	}
	return nil, false
}

var errTooLarge = errors.New("too large")

// openAge decrypts what age has encrypted, armored or not, up to limit bytes.
func (k *Keyring) openAge(data []byte, limit int64) ([]byte, error) {
	var src io.Reader = bytes.NewReader(data)
	if armored(data) {
		src = armor.NewReader(src)
	}
	if k == nil || len(k.age) == 0 {
		return nil, &age.NoIdentityMatchError{}
	}
	r, err := age.Decrypt(src, k.age...)
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(out)) > limit {
		return nil, errTooLarge
	}
	return out, nil
}

func armored(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte(armor.Header))
}

// openPGP decrypts an armored message of one data key.
func (k *Keyring) openPGP(text string) (out []byte, err error) {
	defer calm(&err)
	block, err := pgparmor.Decode(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	limit := int64(4 * keySize)
	md, err := openpgp.ReadMessage(block.Body, k.pgp, nil, &packet.Config{MaxDecompressedMessageSize: &limit})
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(md.UnverifiedBody, keySize+1))
}
