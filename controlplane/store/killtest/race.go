//go:build race

package killtest

// slow: a child under the race detector takes some five times as long to start
// as it lives.
const slow = 5
