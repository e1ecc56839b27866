package uki

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
)

const (
	certificateHeader = 8      // of a WIN_CERTIFICATE
	revision2         = 0x0200 // of it
	typePKCS7         = 0x0002
)

// Sign appends a signature for Secure Boot to an EFI program without one. The
// key must be RSA: firmware verifies no other. No time goes into the signature,
// so that signing twice gives the same bytes.
func Sign(pe []byte, key crypto.Signer, cert *x509.Certificate) ([]byte, error) {
	public, ok := key.Public().(*rsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("sign EFI program: the key is no RSA key, and firmware verifies no other")
	}
	if !public.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("sign EFI program: the certificate %q is for another key", cert.Subject)
	}
	f, err := parsePE(bytes.Clone(pe))
	if err != nil {
		return nil, fmt.Errorf("sign EFI program: %w", err)
	}
	if _, size := f.certificates(); size != 0 {
		return nil, fmt.Errorf("sign EFI program: it is signed already; sign the unsigned one")
	}
	f.putOptional(optChecksum, 0) // of the unsigned file
	hash, err := f.imageHash()
	if err != nil {
		return nil, fmt.Errorf("sign EFI program: %w", err)
	}
	content, err := encodeIndirect(hash)
	if err != nil {
		return nil, fmt.Errorf("sign EFI program: %w", err)
	}
	signature, err := encodeSigned(content, key, cert)
	if err != nil {
		return nil, fmt.Errorf("sign EFI program: %w", err)
	}
	f.b = append(f.b, make([]byte, -len(f.b)&7)...)
	at, size := len(f.b), certificateHeader+len(signature)
	size += -size & 7
	f.putOptional(optSecurity, uint32(at))
	f.putOptional(optSecurity+4, uint32(size))
	head := make([]byte, certificateHeader)
	le.PutUint32(head, uint32(size))
	le.PutUint16(head[4:], revision2)
	le.PutUint16(head[6:], typePKCS7)
	f.b = append(append(f.b, head...), signature...)
	return append(f.b, make([]byte, at+size-len(f.b))...), nil
}

// Unsign takes the signatures off again. What is left is what was signed, but
// for the zeros that pad it to 8 bytes.
func Unsign(pe []byte) ([]byte, error) {
	f, err := parsePE(bytes.Clone(pe))
	if err != nil {
		return nil, fmt.Errorf("take off signatures: %w", err)
	}
	at, size := f.certificates()
	if size == 0 {
		return f.b, nil
	}
	f.putOptional(optSecurity, 0)
	f.putOptional(optSecurity+4, 0)
	return f.b[:at], nil
}

// Verify says whether one of the signatures of an EFI program is by one of the
// certificates, or by one that they issued, as firmware does with its db. Like
// firmware it does not look at when certificates expire.
func Verify(pe []byte, certs []*x509.Certificate) error {
	f, err := parsePE(pe)
	if err != nil {
		return fmt.Errorf("verify EFI program: %w", err)
	}
	at, size := f.certificates()
	if size == 0 {
		return fmt.Errorf("verify EFI program: it is not signed")
	}
	hash, err := f.imageHash()
	if err != nil {
		return fmt.Errorf("verify EFI program: %w", err)
	}
	why := fmt.Errorf("no signature of a known kind")
	for table := f.b[at : at+size]; len(table) >= certificateHeader; {
		n := le.Uint32(table)
		if n < certificateHeader || uint64(n) > uint64(len(table)) {
			return fmt.Errorf("verify EFI program: a signature of %d bytes in %d", n, len(table))
		}
		if le.Uint16(table[4:]) == revision2 && le.Uint16(table[6:]) == typePKCS7 {
			if why = verifySigned(table[certificateHeader:n], hash, certs); why == nil {
				return nil
			}
		}
		table = table[min(alignUp(uint64(n), 8), uint64(len(table))):]
	}
	return fmt.Errorf("verify EFI program: %w", why)
}

// verifySigned checks one PKCS #7 structure from the inside out: the content
// has the program's hash, the attributes have the content's, and the signature
// is over the attributes.
func verifySigned(b []byte, hash [sha256.Size]byte, certs []*x509.Certificate) error {
	signed, err := decodeSigned(b)
	if err != nil {
		return err
	}
	var content asn1.RawValue
	var indirect indirectData
	if _, err := asn1.Unmarshal(signed.Content.Content.Bytes, &content); err != nil {
		return fmt.Errorf("read signature: %w", err)
	}
	if rest, err := asn1.Unmarshal(signed.Content.Content.Bytes, &indirect); err != nil || len(rest) != 0 {
		return fmt.Errorf("read signature: what is signed is no hash of a program")
	}
	if !indirect.Digest.Algorithm.Algorithm.Equal(oidSHA256) || subtle.ConstantTimeCompare(indirect.Digest.Digest, hash[:]) != 1 {
		return fmt.Errorf("the program is not the one that was signed")
	}
	s := signed.Signers[0]
	digest := sha256.Sum256(content.Bytes)
	if err := checkAttributes(s.Attributes.Bytes, digest[:]); err != nil {
		return err
	}
	set := bytes.Clone(s.Attributes.FullBytes)
	set[0] = 0x31
	signer, err := signerOf(signed, certs)
	if err != nil {
		return err
	}
	if err := signer.CheckSignature(x509.SHA256WithRSA, set, s.Signature); err != nil {
		return fmt.Errorf("signature by %q: %w", signer.Subject, err)
	}
	return nil
}

// decodeSigned reads the structure, of the one form that programs are signed in.
func decodeSigned(b []byte) (signedData, error) {
	var info contentInfo
	var signed signedData
	// Zeros may follow: the signature is padded.
	if _, err := asn1.Unmarshal(b, &info); err != nil || !info.Type.Equal(oidSignedData) {
		return signed, fmt.Errorf("read signature: it is no PKCS #7 signed data")
	}
	if rest, err := asn1.Unmarshal(info.Content.Bytes, &signed); err != nil || len(rest) != 0 {
		return signed, fmt.Errorf("read signature: its signed data is damaged")
	}
	if !signed.Content.Type.Equal(oidIndirectData) || len(signed.Signers) != 1 {
		return signed, fmt.Errorf("read signature: it is not of a program, or has %d signers", len(signed.Signers))
	}
	s := signed.Signers[0]
	rsa := s.Encryption.Algorithm.Equal(oidRSA) || s.Encryption.Algorithm.Equal(oidRSASHA256)
	if !s.Digest.Algorithm.Equal(oidSHA256) || !rsa || len(s.Attributes.FullBytes) == 0 {
		return signed, fmt.Errorf("read signature: only RSA with SHA-256 and signed attributes is known")
	}
	return signed, nil
}

// checkAttributes asks that the attributes speak of this content.
func checkAttributes(b, digest []byte) error {
	var kind, sum int
	for len(b) > 0 {
		var a attribute
		rest, err := asn1.Unmarshal(b, &a)
		if err != nil {
			return fmt.Errorf("read signature: attributes: %w", err)
		}
		b = rest
		switch {
		case a.Type.Equal(oidContentType):
			var id asn1.ObjectIdentifier
			if _, err := asn1.Unmarshal(a.Values.Bytes, &id); err == nil && id.Equal(oidIndirectData) {
				kind++
			}
		case a.Type.Equal(oidMessageDigest):
			var d []byte
			if _, err := asn1.Unmarshal(a.Values.Bytes, &d); err == nil && subtle.ConstantTimeCompare(d, digest) == 1 {
				sum++
			}
		}
	}
	if kind != 1 || sum != 1 {
		return fmt.Errorf("the signature is over another hash than it holds")
	}
	return nil
}

// signerOf finds the certificate that signed: one that is trusted, or one in
// the signature that a trusted one issued.
func signerOf(signed signedData, certs []*x509.Certificate) (*x509.Certificate, error) {
	is := func(c *x509.Certificate) bool {
		id := signed.Signers[0].Issuer
		return bytes.Equal(c.RawIssuer, id.Name.FullBytes) && c.SerialNumber.Cmp(id.Serial) == 0
	}
	for _, c := range certs {
		if is(c) {
			return c, nil
		}
	}
	inside, err := x509.ParseCertificates(signed.Certificates.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read signature: certificates: %w", err)
	}
	for _, c := range inside {
		for _, trusted := range certs {
			if is(c) && bytes.Equal(c.RawIssuer, trusted.RawSubject) && c.CheckSignatureFrom(trusted) == nil {
				return c, nil
			}
		}
	}
	return nil, fmt.Errorf("the signer, certificate %d, is none of the %d trusted ones and is not issued by one of them", signed.Signers[0].Issuer.Serial, len(certs))
}
