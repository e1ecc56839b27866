// Package disk brings a node to the data disks that its NodePool declares: whole
// disks with an ext4 file system, mounted at /var/mnt/<name>.
//
//	declared ──┐
//	record  ───┼──> Decide ──> Plan ──> mke2fs, e2fsck, mount, grow, umount
//	/sys ──────┘
//
// It watches nothing: who calls it says when. It owns the mounts of declared
// disks. It promises that a disk that holds anything is never written to but by
// mounting the file system that is labelled for it, and growing that with its
// disk; that the disk of the system is never taken; that what is not declared any
// more is unmounted, and keeps what it holds; and that a format that was broken
// off, whenever, is begun again on that disk and on no other.
//
// A format is begun by a record on the node, then by a mark with the same UUID
// near the end of the disk, where the file system does not reach; it ends when
// the mark is taken away. A file system with the mark was never mounted. One that
// grows leaves that place free at the new end.
package disk

// Wanted is a disk that is declared.
type Wanted struct {
	Name  string `json:"name"`
	Match Match  `json:"match"`
}

// Known is what the node remembers of a disk.
type Known struct {
	// UUID of its file system.
	UUID string `json:"uuid"`
	// Made says that the file system is whole: it was mounted, or could be.
	Made bool `json:"made,omitempty"`
}

// Disk is a whole disk as it is.
type Disk struct {
	Name string // vdb
	// Names are all by which it is known, below /dev.
	Names               []string
	Bytes               int64
	Model, Serial, WWID string
	Rotational          bool
	// Unfit says why it is no data disk whatever is on it: it is removable, has
	// partitions; "" is that it may be.
	Unfit string
	// Mounts are where it is mounted.
	Mounts []string
	// Busy says that something has it, if not a mount: the kernel gives it to
	// nobody else.
	Busy    bool
	Content Content
}

// Device is its file.
func (d *Disk) Device() string { return "/dev/" + d.Name }

// Content is what is on a disk.
type Content struct {
	// Kind is "blank", "ext4", what else it is, or "" where it was not read.
	Kind string
	// Label and UUID of an ext4 file system.
	Label, UUID string
	// Bytes are how far it reaches.
	Bytes int64
	// Mark is the UUID of a format that was begun here and has not ended.
	Mark string
}

// Kinds of content that something is done about. Unfinished is a format that was
// broken off before there was a file system.
const (
	Blank      = "blank"
	Ext4       = "ext4"
	Unfinished = "an unfinished format"
)
