// Package image boots what `make image` builds, and updates it, under QEMU.
//
// TestReproducible builds the image twice, compares, and boots it without a
// firmware to a node that is ready: that is the first half, in every CI run. The
// others start a disk by UEFI, and most of them more than once:
//
//   - TestUpdates lets commits roll a node to another version and to one that is
//     broken, and reverts.
//   - TestJoin has two machines become a cluster, and their pods talk.
//   - TestDamage damages a good version on the disk, and sees the one before take over.
//   - TestDisks gives a machine a blank disk, which grows, and one that is not blank.
//   - TestSecureBoot enrols keys into the firmware and sees what it starts, and what not.
//   - TestTPM encrypts /var, and takes the TPM away.
//   - TestMeasuredBoot does both, and takes Secure Boot away.
//
// All need qemu-system-x86_64 and no root; the others OVMF and git, and swtpm.
// Nothing is faked but the hardware.
//
//	go test -tags image -short ./ci/image    the first half
//	make test-image                          all of it
package image
