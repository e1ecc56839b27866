// Package house keeps the shape of the tree true: who may import whom, and
// that every package says what it is. Its rules are tests; there is no code.
package house
