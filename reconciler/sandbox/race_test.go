//go:build race

package sandbox

// raceEnabled says that the race detector is in, which multiplies memory.
const raceEnabled = true
