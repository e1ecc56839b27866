//go:build race

package render

// slower is how much the race detector is allowed to cost.
const slower = 3
