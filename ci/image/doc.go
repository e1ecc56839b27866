// Package image boots what `make image` builds, and updates it, under QEMU.
//
// TestReproducible builds the image twice, compares, and boots it without a
// firmware to a node that is ready. TestUpdates starts a disk by UEFI, lets commits
// roll its node to another version and to one that is broken, and reverts. Both
// need qemu-system-x86_64 and no root; the second one needs OVMF and git.
// TestDamage damages a good version on the disk, and sees the one before take over.
// TestSecureBoot enrols keys into the firmware and sees what it starts, and what
// not. Nothing is faked but the hardware.
//
//	go test -tags image -short ./ci/image    the first half
//	make test-image                          all of it
package image
