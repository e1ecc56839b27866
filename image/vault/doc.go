// Package vault is /var where it is encrypted: a LUKS2 volume whose key the
// machine's TPM keeps, and beside that a recovery key, which people keep.
//
// It watches nothing. It owns the partition named Partition and the mapping named
// Mapping. It promises that /var is never made plain where it was asked to be
// encrypted, that the recovery key is in no argument, message or file that
// outlives the start, and that a start that is cut short anywhere is made good by
// the next one that is told the recovery key.
//
// The volume and its file system are made by systemd-repart, opened by
// systemd-cryptsetup, and bound to the TPM by systemd-cryptenroll; what is here
// says which of them when. The TPM gives the key to a machine whose firmware
// trusts the same keys of Secure Boot (PCR 7) and on which nothing of /var has run
// since it started (PCR 15): once /var is open, and before any program of it runs,
// writ-seal.service extends PCR 15. Without that, whoever puts a /var of his own
// in the place of this one could ask the TPM for its key. Versions of the
// image do not count in it: an update needs nothing.
package vault
