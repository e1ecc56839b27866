//go:build race

package killtest

// Slow is how many times fewer rounds there are: under the race detector a child
// takes some five times as long to start as it lives.
const Slow = 5
