// Package tool runs the programs that build the image out of the locked
// packages themselves: mkfs.erofs, fsck.erofs and depmod. Each runs by its own dynamic
// loader with its own libraries, so that any Linux of the same processor will
// do, whatever is installed there, and needs no root, chroot or container.
//
// It owns the directory "tools" of the cache. It promises that what it makes
// depends on the lock and on what it is given, and on nothing of the host.
package tool
