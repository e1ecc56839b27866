// Package sim is a machine with two slots that is not there: a disk, an EFI
// partition, a loader that counts, and a power supply that can be cut at every
// single write.
//
// It is for tests of those who use package slot. Disk and ESP are true to what a
// power failure may do: of what was not synced anything may be lost, in any
// order, and a file or a sector run may be there in part; a rename may leave both
// names. Boot does what firmware, systemd-boot and the initrd do: it takes the
// entry, counts, looks after the root file system (package guard), finds the
// partitions by the root hash, and verifies them.
package sim
