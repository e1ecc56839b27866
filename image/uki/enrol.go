package uki

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"time"
	"unicode/utf16"
)

// Pair is a key of Secure Boot and its certificate.
type Pair struct {
	Key         crypto.Signer
	Certificate *x509.Certificate
}

// Enrolment is what a firmware without keys of its own is given: each is the
// content of an authenticated variable (UEFI specification 2.10, 8.2.6), as
// `sign-efi-sig-list` writes it into a file .auth. None is secret.
type Enrolment struct {
	PK, KEK, DB []byte
}

const (
	// variableAttributes: non-volatile, for boot services and for what runs
	// after them, authenticated by time.
	variableAttributes = 0x01 | 0x02 | 0x04 | 0x20

	typeEFIGUID = 0x0ef1 // WIN_CERT_TYPE_EFI_GUID
	listHead    = 28     // bytes of an EFI_SIGNATURE_LIST before its entries
	ownerSize   = 16     // bytes of an entry before its data
	signerKind  = 24     // bytes of a WIN_CERTIFICATE_UEFI_GUID before its data

	// maxEnrolment bounds a variable: firmware has some 64 KiB for all of them.
	maxEnrolment = 32 << 10
)

// GUIDs in the order of their bytes in memory.
var (
	guidGlobal = [16]byte{0x61, 0xdf, 0xe4, 0x8b, 0xca, 0x93, 0xd2, 0x11, 0xaa, 0x0d, 0x00, 0xe0, 0x98, 0x03, 0x2b, 0x8c} // EFI_GLOBAL_VARIABLE
	guidImages = [16]byte{0xcb, 0xb2, 0x19, 0xd7, 0x3a, 0x3d, 0x96, 0x45, 0xa3, 0xbc, 0xda, 0xd0, 0x0e, 0x67, 0x65, 0x6f} // EFI_IMAGE_SECURITY_DATABASE
	guidX509   = [16]byte{0xa1, 0x59, 0xc0, 0xa5, 0xe4, 0x94, 0xa7, 0x4a, 0x87, 0xb5, 0xab, 0x15, 0x5c, 0x2b, 0xf0, 0x72} // EFI_CERT_X509
	guidPKCS7  = [16]byte{0x9d, 0xd2, 0xaf, 0x4a, 0xdf, 0x68, 0xee, 0x49, 0x8a, 0xa9, 0x34, 0x7d, 0x37, 0x56, 0x65, 0xa7} // EFI_CERT_TYPE_PKCS7

	oidData = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
)

// Enrol makes the variables by which platform becomes the owner of a machine,
// exchange may change what it starts, and everything signed by one of db is
// started. at goes into them, in whole seconds: what replaces a variable must be
// later than it.
func Enrol(platform, exchange Pair, db []*x509.Certificate, at time.Time) (*Enrolment, error) {
	if len(db) == 0 {
		return nil, errors.New("enrol keys: no certificate of whom to start")
	}
	owner := sha256.Sum256(platform.Certificate.Raw)
	var e Enrolment
	for _, v := range []struct {
		to     *[]byte
		name   string
		vendor [16]byte
		certs  []*x509.Certificate
		by     Pair
	}{
		{&e.PK, "PK", guidGlobal, []*x509.Certificate{platform.Certificate}, platform},
		{&e.KEK, "KEK", guidGlobal, []*x509.Certificate{exchange.Certificate}, platform},
		{&e.DB, "db", guidImages, db, exchange},
	} {
		b, err := authenticate(v.name, v.vendor, signatureLists([16]byte(owner[:16]), v.certs), v.by, at)
		if err != nil {
			return nil, fmt.Errorf("enrol %s: %w", v.name, err)
		}
		*v.to = b
	}
	return &e, nil
}

// Starts says whether a machine with these keys starts what the key of the
// certificate signs. Without it, enrolling them would lock the machine.
func (e *Enrolment) Starts(cert *x509.Certificate) bool {
	if CheckEnrolment(e.DB) != nil {
		return false
	}
	for c := range listed(e.DB[16+le.Uint32(e.DB[16:]):], guidX509) {
		known, err := x509.ParseCertificate(c)
		if err == nil && (known.Equal(cert) || cert.CheckSignatureFrom(known) == nil) {
			return true
		}
	}
	return false
}

// CheckEnrolment refuses what no firmware would take as a variable, such as a
// certificate in the place of one.
func CheckEnrolment(b []byte) error {
	if len(b) > maxEnrolment {
		return fmt.Errorf("it has %d bytes, at most %d fit a firmware", len(b), maxEnrolment)
	}
	if len(b) < 16+signerKind || le.Uint16(b[16+6:]) != typeEFIGUID || [16]byte(b[16+certificateHeader:][:16]) != guidPKCS7 {
		return errors.New("it is no authenticated variable, as 'writ image keys' and sign-efi-sig-list write them")
	}
	if n := uint64(le.Uint32(b[16:])); n < signerKind || 16+n >= uint64(len(b)) {
		return errors.New("it is cut off")
	}
	return nil
}

// signatureLists is an EFI_SIGNATURE_LIST for each certificate: a list has
// entries of one size.
func signatureLists(owner [16]byte, certs []*x509.Certificate) []byte {
	var b []byte
	for _, c := range certs {
		entry := uint32(ownerSize + len(c.Raw))
		b = append(b, guidX509[:]...)
		b = le.AppendUint32(b, listHead+entry)
		b = le.AppendUint32(b, 0) // no header
		b = le.AppendUint32(b, entry)
		b = append(append(b, owner[:]...), c.Raw...)
	}
	return b
}

// authenticate puts an EFI_VARIABLE_AUTHENTICATION_2 before the data.
func authenticate(name string, vendor [16]byte, data []byte, by Pair, at time.Time) ([]byte, error) {
	stamp := efiTime(at)
	var signed bytes.Buffer
	for _, c := range utf16.Encode([]rune(name)) {
		signed.Write(le.AppendUint16(nil, c))
	}
	signed.Write(vendor[:])
	signed.Write(le.AppendUint32(nil, variableAttributes))
	signed.Write(stamp)
	signed.Write(data)
	signature, err := detached(signed.Bytes(), by)
	if err != nil {
		return nil, err
	}
	b := le.AppendUint32(stamp, uint32(signerKind+len(signature)))
	b = le.AppendUint16(b, revision2)
	b = le.AppendUint16(b, typeEFIGUID)
	b = append(append(append(b, guidPKCS7[:]...), signature...), data...)
	return b, CheckEnrolment(b)
}

// efiTime is an EFI_TIME in UTC, whose other fields have to be zero.
func efiTime(at time.Time) []byte {
	at = at.UTC()
	b := le.AppendUint16(make([]byte, 0, 16), uint16(at.Year()))
	b = append(b, byte(at.Month()), byte(at.Day()), byte(at.Hour()), byte(at.Minute()), byte(at.Second()))
	return append(b, make([]byte, 9)...)
}

// detachedData is signedData without its content.
type detachedData struct {
	Version      int
	Algorithms   []pkix.AlgorithmIdentifier `asn1:"set"`
	Content      struct{ Type asn1.ObjectIdentifier }
	Certificates asn1.RawValue `asn1:"optional,tag:0"`
	Signers      []signerInfo  `asn1:"set"`
}

// detached signs as firmware asks of a variable: the bare structure, which older
// ones do not find inside another, over the content itself.
func detached(content []byte, by Pair) ([]byte, error) {
	public, ok := by.Key.Public().(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("the key is no RSA key, and firmware verifies no other")
	}
	if !public.Equal(by.Certificate.PublicKey) {
		return nil, fmt.Errorf("the certificate %q is for another key", by.Certificate.Subject)
	}
	digest := sha256.Sum256(content)
	signature, err := by.Key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	d := detachedData{
		Version: 1, Algorithms: []pkix.AlgorithmIdentifier{algSHA256}, Certificates: explicit(by.Certificate.Raw),
		Signers: []signerInfo{{
			Version: 1, Issuer: issuerAndSerial{Name: asn1.RawValue{FullBytes: by.Certificate.RawIssuer}, Serial: by.Certificate.SerialNumber},
			Digest: algSHA256, Encryption: algRSA, Signature: signature,
		}},
	}
	d.Content.Type = oidData
	return asn1.Marshal(d)
}
