// Package bundle is the file that a version of the appliance travels in: what
// one slot of a node is filled with, and who answers for it.
//
//	manifest.json      what follows: names, sizes, SHA-256 sums, root hash
//	manifest.json.sig  an SSH signature of it (ssh-keygen -Y verify reads it); may be absent
//	root.erofs.zst     the root file system, packed by zstd
//	root.verity        its hash tree
//	writ.efi           the unified kernel image, which has the root hash inside
//
// It is a tar, so that it can be written to a slot while it is read. The root
// file system is packed as a whole: it comes a quarter smaller than one that is
// compressed block by block, and a running node unpacks nothing. A bundle has
// exactly one form: the reader makes every header from the manifest and compares,
// so that there is nothing in the file that is neither expected nor hashed.
//
// It holds nothing and watches nothing. It promises that nothing of a bundle is
// acted upon before its digest or the signature of its manifest is found true,
// and that every byte is counted and hashed while it streams. What it refuses, it
// refuses by one sentence.
package bundle
