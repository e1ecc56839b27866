// Package settings brings a node to the settings of its NodePool that need no
// reboot: sysctls, time servers, how registries of images and their mirrors are
// asked, and data disks.
//
//	NodePool ──> Wanted ─┐
//	record ──────────────┼──> Decide ──> Plan ──> /proc/sys, timesyncd, disks
//	this machine ────────┤                        Mirrors, Endpoint
//	Secrets ─────────────┘                        condition SettingsApplied
//
// It watches the NodePools, its own Node and the Secrets of its registries, and
// once a minute what it has set. It owns the sysctls that the pool names, one
// drop-in of systemd-timesyncd, the mirrors and endpoints that pulls ask, the
// mounts of declared disks, a record, and the node's condition SettingsApplied.
// It promises that a sysctl gets back the value it had before, whenever the agent
// was killed meanwhile; that what the node itself sets is left alone; that no
// Secret is on a disk of the node; what package disk promises of disks; that one
// setting that cannot be made holds up no other; that the settings of the last
// time, but for Secrets, are in force while no server answers; and that it
// touches nothing, and does nothing, on a node whose pool says nothing of all
// this.
package settings
