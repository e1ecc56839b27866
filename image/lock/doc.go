// Package lock pins the Debian packages that the node image is made of.
//
// packages.list says by hand which packages are wanted; packages.lock says
// which version of each, with the digest of its file. Resolve makes the second
// from the first and from what the mirrors offer today; Fetch downloads what
// the lock names. Between the two nothing is decided: two builds from one lock
// see the same bytes.
//
// Trust: Resolve believes an archive only by the OpenPGP signature of its
// InRelease, by keys that lie in this package; every other file is believed by
// a digest that leads back to it. Fetch and Read believe nothing but the digest
// in the lock. The transport is not trusted: Debian serves plain HTTP.
//
// It watches nothing, and writes only into the cache directory it is given.
package lock
