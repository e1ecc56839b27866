// Package histories holds what a plan says against what the cluster then does.
//
// A history is a txtar file: its comment is a script of one command a line, its
// files are trees. It is played over a real store, registry, admission,
// controllers and reconciler, in a bubble of testing/synctest, so that hours of
// a cluster's life take milliseconds and everybody has come to rest when the
// next command begins. After each command what was said is held against what
// the store has. The histories of testdata were recorded; others are random,
// and one that fails is printed as a file for testdata, as short as it gets.
package histories
