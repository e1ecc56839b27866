// Package uki puts kernel, initrd and command line into one EFI program, a
// unified kernel image, reads them back, and signs it for Secure Boot.
//
// It owns nothing and watches nothing: bytes go in and come out, and the same go
// in as come out, so that builds are reproducible and a signature can be
// made anew. What it builds is what systemd's `ukify build` makes of the same
// parts (UAPI.5, Unified Kernel Image); the signature is Authenticode, as `sbsign`
// makes it. It also makes keys of Secure Boot and the variables by which firmware
// takes them, and says what the firmware of this machine would start.
//
// Every file is held in memory: a unified kernel image is, too, when it is booted.
package uki
