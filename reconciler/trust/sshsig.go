package trust

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// The frame of an SSH signature; see PROTOCOL.sshsig of OpenSSH.
const (
	sshBegin     = "-----BEGIN SSH SIGNATURE-----"
	sshMagic     = "SSHSIG"
	sshNamespace = "git"
	minRSABits   = 2048
)

// sshSigned is what an SSH signature consists of, after the magic.
type sshSigned struct {
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

// sshAlgorithms are the signatures that count. Those with SHA-1, DSA and
// certificates do not.
var sshAlgorithms = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519,
	ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256,
	ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512,
}

func (p *Policy) verifySSH(text, payload []byte) (Signature, *Key) {
	sig, pub, err := parseSSH(text)
	if err != nil {
		return badSignature("", "its SSH signature is malformed: %v", err), nil
	}
	print := ssh.FingerprintSHA256(pub)
	i := slices.IndexFunc(p.keys, func(k Key) bool { return k.ssh != nil && bytes.Equal(k.ssh.Marshal(), sig.PublicKey) })
	if i < 0 {
		if strings.Contains(pub.Type(), "-cert-") {
			return unknown(print, "it is signed with an SSH certificate, which is not supported: name the keys themselves"), nil
		}
		return unknown(print, "it is signed by the SSH key %s, which is not in the policy", print), nil
	}
	k := &p.keys[i]
	message, err := sig.message(payload)
	if err != nil {
		return badSignature(print, "its SSH signature cannot count: %v", err), k
	}
	var inner ssh.Signature
	if err := ssh.Unmarshal(sig.Signature, &inner); err != nil {
		return badSignature(print, "its SSH signature is malformed"), k
	}
	if !slices.Contains(sshAlgorithms, inner.Format) {
		return badSignature(print, "its SSH signature uses %s, which is not safe", strings.ToValidUTF8(inner.Format, "?")), k
	}
	if !strings.HasPrefix(inner.Format, "sk-") && len(inner.Rest) > 0 {
		return badSignature(print, "its SSH signature is malformed"), k
	}
	if err := k.ssh.Verify(message, &inner); err != nil {
		return badSignature(print, "its SSH signature does not belong to its content: %v", strings.TrimPrefix(err.Error(), "ssh: ")), k
	}
	return Signature{State: Verified, Signer: k.Name, Key: print}, k
}

// parseSSH reads an armored SSH signature, and only that.
func parseSSH(text []byte) (*sshSigned, ssh.PublicKey, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "SSH SIGNATURE" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, nil, errors.New("its armor is broken")
	}
	body, ok := bytes.CutPrefix(block.Bytes, []byte(sshMagic))
	if !ok {
		return nil, nil, errors.New("it does not begin with SSHSIG")
	}
	s := &sshSigned{}
	if err := ssh.Unmarshal(body, s); err != nil {
		return nil, nil, errors.New("its fields cannot be read")
	}
	if s.Version != 1 {
		return nil, nil, errors.New("it is not of version 1")
	}
	pub, err := ssh.ParsePublicKey(s.PublicKey)
	if err != nil {
		return nil, nil, errors.New("its key cannot be read")
	}
	return s, pub, nil
}

// message is what the key has signed: a hash of the payload, with its purpose.
func (s *sshSigned) message(payload []byte) ([]byte, error) {
	if s.Namespace != sshNamespace {
		return nil, errors.New(`it was made for another purpose than "git"`)
	}
	var sum []byte
	switch s.Hash {
	case "sha512":
		h := sha512.Sum512(payload)
		sum = h[:]
	case "sha256":
		h := sha256.Sum256(payload)
		sum = h[:]
	default:
		return nil, errors.New("its hash is neither sha256 nor sha512")
	}
	return append([]byte(sshMagic), ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Sum                       []byte
	}{s.Namespace, s.Reserved, s.Hash, sum})...), nil
}

// parseSSHKey reads one line of an authorized_keys or .pub file.
func parseSSHKey(text string) (ssh.PublicKey, error) {
	pub, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return nil, errors.New(`is no SSH public key; it looks like "ssh-ed25519 AAAA..."`)
	}
	if len(options) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("must be one SSH public key without options")
	}
	switch pub.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256:
		return pub, nil
	case ssh.KeyAlgoRSA:
		if c, ok := pub.(ssh.CryptoPublicKey); ok {
			if r, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok && r.N.BitLen() >= minRSABits {
				return pub, nil
			}
		}
		return nil, errors.New("is an RSA key of less than 2048 bits")
	}
	return nil, errors.New("is an SSH key of the type " + pub.Type() + ", which cannot sign commits here")
}
