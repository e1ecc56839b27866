package pki

import (
	"crypto/x509"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// keyUsages turns usages of the API into those of X.509, without repetitions
// and in the order of their numbers.
func keyUsages(usages []certificatesv1.KeyUsage) (x509.KeyUsage, []x509.ExtKeyUsage, error) {
	var (
		bits     x509.KeyUsage
		extended []x509.ExtKeyUsage
		unknown  []certificatesv1.KeyUsage
	)
	for _, u := range usages {
		if bit, ok := usageBit(u); ok {
			bits |= bit
		} else if ext, ok := extendedUsage(u); ok {
			extended = append(extended, ext)
		} else {
			unknown = append(unknown, u)
		}
	}
	if len(unknown) > 0 {
		return 0, nil, refused("unrecognized usage values: %q", unknown)
	}
	slices.Sort(extended)
	return bits, slices.Compact(extended), nil
}

func usageBit(u certificatesv1.KeyUsage) (x509.KeyUsage, bool) {
	switch u {
	case certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature:
		return x509.KeyUsageDigitalSignature, true
	case certificatesv1.UsageContentCommitment:
		return x509.KeyUsageContentCommitment, true
	case certificatesv1.UsageKeyEncipherment:
		return x509.KeyUsageKeyEncipherment, true
	case certificatesv1.UsageKeyAgreement:
		return x509.KeyUsageKeyAgreement, true
	case certificatesv1.UsageDataEncipherment:
		return x509.KeyUsageDataEncipherment, true
	case certificatesv1.UsageCertSign:
		return x509.KeyUsageCertSign, true
	case certificatesv1.UsageCRLSign:
		return x509.KeyUsageCRLSign, true
	case certificatesv1.UsageEncipherOnly:
		return x509.KeyUsageEncipherOnly, true
	case certificatesv1.UsageDecipherOnly:
		return x509.KeyUsageDecipherOnly, true
	}
	return 0, false
}

func extendedUsage(u certificatesv1.KeyUsage) (x509.ExtKeyUsage, bool) {
	switch u {
	case certificatesv1.UsageAny:
		return x509.ExtKeyUsageAny, true
	case certificatesv1.UsageServerAuth:
		return x509.ExtKeyUsageServerAuth, true
	case certificatesv1.UsageClientAuth:
		return x509.ExtKeyUsageClientAuth, true
	case certificatesv1.UsageCodeSigning:
		return x509.ExtKeyUsageCodeSigning, true
	case certificatesv1.UsageEmailProtection, certificatesv1.UsageSMIME:
		return x509.ExtKeyUsageEmailProtection, true
	case certificatesv1.UsageIPsecEndSystem:
		return x509.ExtKeyUsageIPSECEndSystem, true
	case certificatesv1.UsageIPsecTunnel:
		return x509.ExtKeyUsageIPSECTunnel, true
	case certificatesv1.UsageIPsecUser:
		return x509.ExtKeyUsageIPSECUser, true
	case certificatesv1.UsageTimestamping:
		return x509.ExtKeyUsageTimeStamping, true
	case certificatesv1.UsageOCSPSigning:
		return x509.ExtKeyUsageOCSPSigning, true
	case certificatesv1.UsageMicrosoftSGC:
		return x509.ExtKeyUsageMicrosoftServerGatedCrypto, true
	case certificatesv1.UsageNetscapeSGC:
		return x509.ExtKeyUsageNetscapeServerGatedCrypto, true
	}
	return 0, false
}
