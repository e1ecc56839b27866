// Package settings brings a node to the settings of its NodePool that need no
// reboot: sysctls, time servers, and mirrors of image registries.
//
//	NodePool ──> Wanted ─┐
//	record ──────────────┼──> Decide ──> Plan ──> /proc/sys, timesyncd, Mirrors
//	this machine ────────┘                        condition SettingsApplied
//
// It watches the NodePools and its own Node, and once a minute what it has set.
// It owns the sysctls that the pool names, one drop-in of systemd-timesyncd, the
// mirrors that pulls ask, a record, and the node's condition SettingsApplied. It
// promises that a sysctl gets back the value it had before, whenever the agent
// was killed meanwhile; that what the node itself sets is left alone; that one
// setting that cannot be made holds up no other; that the settings of the last
// time are in force while no server answers; and that it touches nothing, and
// does nothing, on a node whose pool says nothing of all this.
package settings
