package uki

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

const (
	// keyBits is what every firmware verifies; of longer keys some do not.
	keyBits = 2048
	// keyYears is only for people to read: firmware does not look at it.
	keyYears = 20
)

// NewPair makes a key and a certificate of its own signature, valid from a day
// before now.
func NewPair(name string, now time.Time) (Pair, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return Pair{}, fmt.Errorf("make key %s: %w", name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return Pair{}, fmt.Errorf("make key %s: %w", name, err)
	}
	c := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: now.AddDate(0, 0, -1), NotAfter: now.AddDate(keyYears, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return Pair{}, fmt.Errorf("make certificate %s: %w", name, err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		return Pair{}, fmt.Errorf("make certificate %s: %w", name, err)
	}
	return Pair{Key: key, Certificate: c}, nil
}
