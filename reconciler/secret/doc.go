// Package secret opens the files of a commit that are encrypted: YAML and JSON
// whose values SOPS has encrypted (age, OpenPGP), and whole files encrypted
// with age.
//
// It watches nothing, owns nothing and does no I/O: keys and files are handed
// to it. It promises that
//
//   - a plain text exists in memory only, and in no error, finding or hash;
//   - a file is opened whole and unaltered, or not at all: every value is
//     authenticated, and so is their order and their number;
//   - line n of what it returns is line n of the file, so that findings about
//     the plain text point into the file that its author sees;
//   - hostile input costs a bounded amount of time and memory.
//
// The format is that of SOPS 3 (getsops.io/docs). Its own library is not used:
// importing any package of it links the SDKs of five clouds, 800 packages. The
// cryptography is that of filippo.io/age, ProtonMail/go-crypto and the
// standard library, and the tests open what the real sops and age have made.
//
//	           .age: age ────────────────────────────┐
//	file ──┤                                         ├──> Opened
//	           sops: data key ──> values ──> MAC ────┘    plain text, findings
package secret
