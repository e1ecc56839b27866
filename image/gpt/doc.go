// Package gpt reads and writes GUID partition tables, so that a disk image can
// be made, a slot can be switched, and the initrd can find its root, without
// any program besides.
//
// It holds nothing and watches nothing: tables are values. A table lies on the
// disk twice, at the start (primary) and at the end (backup); every change is
// written so that after a power failure at any moment one of the two is whole,
// and is the table from before the change or from after it.
//
// Layout after the UEFI specification 2.10, chapter 5. Sectors are 512 bytes:
// an image is made for one sector size, and firmware of virtual machines
// reads no other. The package has no dependencies but the standard library; it
// is part of the initrd, so it stays small.
package gpt
