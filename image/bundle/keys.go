package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// Namespace is what signatures of bundles are made for, so that none that was
// made for anything else counts: ssh-keygen -Y sign -n writ-image.
const Namespace = "writ-image"

// Keys are who may sign bundles.
type Keys []Key

// Key is one of them.
type Key struct {
	Principal string // who it is, such as release@example.org
	Public    ssh.PublicKey
}

var errNoKey = errors.New(`must be principals and an SSH public key, such as "release@example.org ssh-ed25519 AAAA"`)

// maxKeys bounds the file of keys, in bytes.
const maxKeys = 1 << 20

// ParseKeys reads an allowed signers file, in the form of ssh-keygen(1): on each
// line principals, options, and a public key. Keys are of Ed25519. Of the
// options namespaces="writ-image" is taken; lines for other namespaces are left out. A
// key that is not to be trusted any more is taken out of the file: options that
// need a clock are refused, because a node's clock may be wrong when it is needed
// most.
func ParseKeys(file string, data []byte) (Keys, error) {
	if len(data) > maxKeys {
		return nil, fmt.Errorf("%s: has more than %d bytes", file, maxKeys)
	}
	var keys Keys
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, here, err := parseKey(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		if here {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s: has no key for %s", file, Namespace)
	}
	return keys, nil
}

// parseKey reads one line, and says whether it is for bundles.
func parseKey(line string) (k Key, here bool, err error) {
	who, rest, err := principals(line)
	if err != nil {
		return Key{}, false, err
	}
	pub, _, options, more, err := ssh.ParseAuthorizedKey([]byte(rest))
	if err != nil || len(bytes.TrimSpace(more)) > 0 {
		return Key{}, false, errNoKey
	}
	if pub.Type() != ssh.KeyAlgoED25519 {
		return Key{}, false, fmt.Errorf("the key is of the type %s, and bundles are signed with %s", pub.Type(), ssh.KeyAlgoED25519)
	}
	here = true
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		if !strings.EqualFold(name, "namespaces") {
			return Key{}, false, fmt.Errorf("the option %s is not supported: to end the trust in a key, take it out", name)
		}
		here = within(Namespace, strings.Trim(value, `"`))
	}
	return Key{Principal: who, Public: pub}, here, nil
}

// principals cuts the first field off, which may be quoted.
func principals(line string) (who, rest string, err error) {
	if quoted, ok := strings.CutPrefix(line, `"`); ok {
		who, rest, ok = strings.Cut(quoted, `"`)
		if !ok {
			return "", "", errors.New("the principals have no closing quote")
		}
		return who, strings.TrimSpace(rest), nil
	}
	i := strings.IndexAny(line, " \t")
	if i < 0 {
		return "", "", errNoKey
	}
	return line[:i], strings.TrimSpace(line[i:]), nil
}

// within says whether a name fits a list of patterns as ssh_config(5) has them:
// one fits, and none that begins with "!" does.
func within(name, patterns string) bool {
	fits := false
	for p := range strings.SplitSeq(patterns, ",") {
		p, not := strings.CutPrefix(strings.TrimSpace(p), "!")
		if ok, err := path.Match(p, name); err != nil || !ok {
			continue
		}
		if not {
			return false
		}
		fits = true
	}
	return fits
}

// verify says who has signed the manifest.
func (k Keys) verify(manifest, signature []byte) (Key, error) {
	sig, err := sshsig.Unarmor(signature)
	if err != nil {
		return Key{}, refuse("its signature cannot be read")
	}
	for _, key := range k {
		if !bytes.Equal(key.Public.Marshal(), sig.PublicKey.Marshal()) {
			continue
		}
		if sig.Namespace != Namespace {
			return Key{}, refuse("its signature was made for %.40q, and not for %s", sig.Namespace, Namespace)
		}
		if err := sshsig.Verify(bytes.NewReader(manifest), sig, key.Public, sig.HashAlgorithm, Namespace); err != nil {
			return Key{}, refuse("the signature of %s does not belong to its manifest", key.Principal)
		}
		return key, nil
	}
	return Key{}, refuse("it is signed by %s, which is none of the keys that are trusted", ssh.FingerprintSHA256(sig.PublicKey))
}
