// Package source makes one file tree of all locked packages: what the image
// and the tools that build it are taken from.
//
// It reads the cache that lock.Fetch has filled, and writes nothing. It
// promises that one lock makes one tree.
package source
