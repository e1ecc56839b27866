package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/writ-os/writ/reconciler/secret"
)

// maxKeys is the longest file of keys, in bytes.
const maxKeys = 1 << 20

// ReadKeys reads age identities, as the sops program finds them: in a file, by
// default the one that SOPS_AGE_KEY_FILE names, and else in SOPS_AGE_KEY itself.
// nil where there is none. Errors say nothing of what is in them.
func ReadKeys(file string, getenv func(string) string) (*secret.Keyring, error) {
	if file == "" {
		file = getenv("SOPS_AGE_KEY_FILE")
	}
	data, from := []byte(getenv("SOPS_AGE_KEY")), "SOPS_AGE_KEY"
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return nil, Usage("read the age keys: %v: name the file of identities by --age-key or SOPS_AGE_KEY_FILE", err)
		}
		defer f.Close()
		if data, err = io.ReadAll(io.LimitReader(f, maxKeys)); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		from = file
	}
	if len(data) == 0 {
		return nil, nil
	}
	keys, err := secret.New(map[string][]byte{"keys.agekey": data})
	if err != nil {
		return nil, Usage("%s has no age identity that can be used: it begins with AGE-SECRET-KEY-1, as age-keygen writes it", from)
	}
	return keys, nil
}
