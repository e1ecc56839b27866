package uki

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"slices"
)

// The structures of a signature: PKCS #7 (RFC 2315) around the SpcIndirectData of
// Microsoft's "Windows Authenticode Portable Executable Signature Format" (2008).
var (
	oidSignedData    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidIndirectData  = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 1, 4}
	oidImageData     = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 1, 15}
	oidContentType   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3}
	oidMessageDigest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}
	oidSHA256        = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
	oidRSA           = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
	oidRSASHA256     = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}

	algSHA256 = pkix.AlgorithmIdentifier{Algorithm: oidSHA256, Parameters: asn1.NullRawValue}
	algRSA    = pkix.AlgorithmIdentifier{Algorithm: oidRSA, Parameters: asn1.NullRawValue}
)

type contentInfo struct {
	Type    asn1.ObjectIdentifier
	Content asn1.RawValue `asn1:"explicit,tag:0"`
}

type signedData struct {
	Version      int
	Algorithms   []pkix.AlgorithmIdentifier `asn1:"set"`
	Content      contentInfo
	Certificates asn1.RawValue `asn1:"optional,tag:0"`
	CRLs         asn1.RawValue `asn1:"optional,tag:1"`
	Signers      []signerInfo  `asn1:"set"`
}

type signerInfo struct {
	Version    int
	Issuer     issuerAndSerial
	Digest     pkix.AlgorithmIdentifier
	Attributes asn1.RawValue `asn1:"optional,tag:0"`
	Encryption pkix.AlgorithmIdentifier
	Signature  []byte
	Unsigned   asn1.RawValue `asn1:"optional,tag:1"`
}

type issuerAndSerial struct {
	Name   asn1.RawValue
	Serial *big.Int
}

type attribute struct {
	Type   asn1.ObjectIdentifier
	Values asn1.RawValue `asn1:"set"`
}

// indirectData is what is signed: the hash of the program.
type indirectData struct {
	Data struct {
		Type  asn1.ObjectIdentifier
		Value asn1.RawValue
	}
	Digest struct {
		Algorithm pkix.AlgorithmIdentifier
		Digest    []byte
	}
}

// imageData is SpcPeImageData with no flags and the file "<<<Obsolete>>>", in
// UTF-16, as every signer writes it.
var imageData = append([]byte{0x30, 0x25, 0x03, 0x01, 0x00, 0xa0, 0x20, 0xa2, 0x1e, 0x80, 0x1c},
	[]byte("\x00<\x00<\x00<\x00O\x00b\x00s\x00o\x00l\x00e\x00t\x00e\x00>\x00>\x00>")...)

// imageHash is the hash of the program without what signing changes: the
// checksum, the place of the signatures, the signatures.
func (f *peFile) imageHash() ([sha256.Size]byte, error) {
	sections := slices.DeleteFunc(slices.Clone(f.sections), func(s peSection) bool { return s.rawSize == 0 })
	slices.SortFunc(sections, func(a, b peSection) int { return int(int64(a.rawAt) - int64(b.rawAt)) })
	// With sections that follow each other, every way to read the specification
	// comes to the same: hash the file from start to end.
	end := uint64(f.headersSize())
	for _, s := range sections {
		if uint64(s.rawAt) != end {
			return [sha256.Size]byte{}, fmt.Errorf("section %s begins at byte %d, not at %d where the one before it ends", s.name, s.rawAt, end)
		}
		end = s.rawEnd()
	}
	body := f.b
	if at, size := f.certificates(); size != 0 {
		if uint64(at) < end {
			return [sha256.Size]byte{}, fmt.Errorf("signatures at byte %d lie in a section", at)
		}
		body = f.b[:at]
	}
	h := sha256.New()
	sum, dir := f.opt+optChecksum, f.opt+optSecurity
	for _, part := range [][]byte{body[:sum], body[sum+4 : dir], body[dir+8:]} {
		h.Write(part)
	}
	if _, size := f.certificates(); size == 0 {
		h.Write(make([]byte, -len(body)&7)) // where a signature will begin
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// encodeIndirect is the content that is signed.
func encodeIndirect(hash [sha256.Size]byte) ([]byte, error) {
	var d indirectData
	d.Data.Type, d.Data.Value = oidImageData, asn1.RawValue{FullBytes: imageData}
	d.Digest.Algorithm, d.Digest.Digest = algSHA256, hash[:]
	return asn1.Marshal(d)
}

// encodeSigned is the whole PKCS #7 structure over content. There is no time in
// it, so that with an RSA key one program has one signature.
func encodeSigned(content []byte, key crypto.Signer, cert *x509.Certificate) ([]byte, error) {
	var inner asn1.RawValue
	if _, err := asn1.Unmarshal(content, &inner); err != nil {
		return nil, err
	}
	digest := sha256.Sum256(inner.Bytes) // without tag and length (RFC 2315, 9.3)
	attributes, err := encodeAttributes(digest[:])
	if err != nil {
		return nil, err
	}
	// The signature is over the attributes as a SET; in the structure their tag
	// is another one.
	set := sha256.Sum256(bytes.Join([][]byte{{0x31}, attributes[1:]}, nil))
	signature, err := key.Sign(nil, set[:], crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	signed, err := asn1.Marshal(signedData{
		Version: 1, Algorithms: []pkix.AlgorithmIdentifier{algSHA256},
		Content:      contentInfo{Type: oidIndirectData, Content: explicit(content)},
		Certificates: explicit(cert.Raw),
		Signers: []signerInfo{{
			Version: 1, Issuer: issuerAndSerial{Name: asn1.RawValue{FullBytes: cert.RawIssuer}, Serial: cert.SerialNumber},
			Digest: algSHA256, Attributes: asn1.RawValue{FullBytes: attributes}, Encryption: algRSA, Signature: signature,
		}},
	})
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(contentInfo{Type: oidSignedData, Content: explicit(signed)})
}

// explicit wraps one encoded value in tag [0].
func explicit(b []byte) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: b}
}

// encodeAttributes is the signed attributes, tagged [0], in the order DER asks for.
func encodeAttributes(digest []byte) ([]byte, error) {
	var all [][]byte
	for _, a := range []struct {
		kind  asn1.ObjectIdentifier
		value any
	}{{oidContentType, oidIndirectData}, {oidMessageDigest, digest}} {
		value, err := asn1.Marshal(a.value)
		if err != nil {
			return nil, err
		}
		b, err := asn1.Marshal(attribute{Type: a.kind, Values: asn1.RawValue{Tag: asn1.TagSet, IsCompound: true, Bytes: value}})
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	slices.SortFunc(all, bytes.Compare)
	return asn1.Marshal(explicit(bytes.Join(all, nil)))
}
