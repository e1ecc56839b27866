//go:build !race

package killtest

// Slow is how many times fewer rounds there are.
const Slow = 1
