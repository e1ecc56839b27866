// Package root is the content of a node's root file system: which files of the
// packages it takes, which kernel modules, and what is our own: units,
// configuration, the programs.
//
// keep.list, modules.drop, wants and the folder files say all of it; Tree puts it
// together. It watches nothing and runs nothing. It promises that there is no
// shell, no package manager, no login and no listener but Writ's own in it, and
// that equal packages and programs make an equal tree.
//
// The root file system is read-only. What a node keeps is in /var, a partition
// that the first start makes; what ends with a start is in /run. The machine's
// ID is not kept: systemd.machine_id=firmware on the kernel's command line takes
// it from the firmware, before there is a /var, so that the journal and the
// network find it. Where the firmware has none the initrd derives one from the disk,
// from the second start on; the first has a random one.
package root
