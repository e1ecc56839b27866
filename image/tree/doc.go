// Package tree holds a file tree in memory: what lies in the node image before
// it is a file system. A source tree has every file of every locked package;
// the tree of an image has what a keep list takes from it, the libraries that
// follow from that, and files of our own.
//
// Each file knows its origin, the package it came from, so that sizes and a
// bill of materials can be said at the end.
//
// It watches nothing and runs nothing. It promises that equal trees make equal
// tar streams, bit by bit, and that no path or link leads out of the tree.
package tree
