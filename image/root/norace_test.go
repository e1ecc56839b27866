//go:build !race

package root

const raceEnabled = false
