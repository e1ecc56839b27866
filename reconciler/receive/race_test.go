//go:build race

package receive

// raceEnabled says that the race detector is in, which multiplies memory.
const raceEnabled = true
