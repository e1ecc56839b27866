package trust

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// pgpHashes are those whose signatures count: not MD5, SHA-1 and RIPEMD-160.
var pgpHashes = []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA3_256, crypto.SHA3_512}

func (p *Policy) verifyPGP(text, payload []byte, now time.Time) (s Signature, k *Key) {
	defer func() {
		if recover() != nil { // packets are input, and input must not end the process
			s, k = badSignature("", "its OpenPGP signature is malformed"), nil
		}
	}()
	body, sig, err := parsePGP(text)
	if err != nil {
		return badSignature("", "its OpenPGP signature is malformed: %v", err), nil
	}
	id := issuer(sig)
	var keys openpgp.EntityList
	owner := map[*openpgp.Entity]*Key{}
	for i := range p.keys {
		for _, e := range p.keys[i].pgp {
			keys = append(keys, e)
			owner[e] = &p.keys[i]
		}
	}
	if len(keys.KeysById(*sig.IssuerKeyId)) == 0 {
		return unknown(id, "it is signed by the OpenPGP key %s, which is not in the policy", id), nil
	}
	if !slices.Contains(pgpHashes, sig.Hash) {
		return badSignature(id, "its OpenPGP signature uses %v, which is not safe", sig.Hash), nil
	}
	_, e, err := openpgp.VerifyDetachedSignature(keys, bytes.NewReader(payload), bytes.NewReader(body), &packet.Config{Time: func() time.Time { return now }})
	if e != nil {
		id = fmt.Sprintf("%X", e.PrimaryKey.Fingerprint)
		k = owner[e]
	}
	switch {
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return badSignature(id, "the OpenPGP key %s has expired", id), k
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return badSignature(id, "the OpenPGP key %s has been revoked", id), k
	case errors.Is(err, pgperrors.ErrSignatureExpired):
		return badSignature(id, "its OpenPGP signature has expired"), k
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return badSignature(id, "the OpenPGP key %s is not one that may sign", id), k
	case err != nil || k == nil:
		return badSignature(id, "its OpenPGP signature does not belong to its content"), k
	}
	return Signature{State: Verified, Signer: k.Name, Key: id}, k
}

// parsePGP reads an armored signature of one packet. Git accepts several; only
// one of them could be checked, and which is not for the author to choose.
func parsePGP(text []byte) ([]byte, *packet.Signature, error) {
	block, err := armor.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, nil, errors.New("its armor is broken")
	}
	if block.Type != openpgp.SignatureType && block.Type != "PGP MESSAGE" {
		return nil, nil, errors.New("it is no signature")
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(block.Body); err != nil {
		return nil, nil, errors.New("its armor is broken")
	}
	packets := packet.NewReader(bytes.NewReader(body.Bytes()))
	first, err := packets.Next()
	sig, ok := first.(*packet.Signature)
	if err != nil || !ok || sig.IssuerKeyId == nil {
		return nil, nil, errors.New("it is no signature that names its key")
	}
	if sig.SigType != packet.SigTypeBinary && sig.SigType != packet.SigTypeText {
		return nil, nil, errors.New("it is not a signature of a document")
	}
	if next, err := packets.Next(); err == nil || next != nil {
		return nil, nil, errors.New("it holds more than one packet")
	}
	return body.Bytes(), sig, nil
}

func issuer(sig *packet.Signature) string {
	if len(sig.IssuerFingerprint) > 0 {
		return fmt.Sprintf("%X", sig.IssuerFingerprint)
	}
	return fmt.Sprintf("%016X", *sig.IssuerKeyId)
}

// parsePGPKey reads an armored public key.
func parsePGPKey(text string) (list openpgp.EntityList, err error) {
	defer func() {
		if recover() != nil {
			list, err = nil, errors.New("is no OpenPGP public key")
		}
	}()
	list, err = openpgp.ReadArmoredKeyRing(bytes.NewReader([]byte(text)))
	if err != nil || len(list) == 0 {
		return nil, errors.New("is no armored OpenPGP public key; make one with gpg --export --armor")
	}
	for _, e := range list {
		if e.PrivateKey != nil {
			return nil, errors.New("holds a private key; it must be replaced, for it was written into a file, and the public one belongs here")
		}
		if n, err := e.PrimaryKey.BitLength(); rsaKey(e.PrimaryKey) && (err != nil || n < minRSABits) {
			return nil, errors.New("is an RSA key of less than 2048 bits")
		}
	}
	return list, nil
}

func rsaKey(k *packet.PublicKey) bool {
	return k.PubKeyAlgo == packet.PubKeyAlgoRSA || k.PubKeyAlgo == packet.PubKeyAlgoRSASignOnly
}
