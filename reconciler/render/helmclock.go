package render

import "time"

// clockOf is a moment of the one or the other world. Templates must make the
// same of both.
func clockOf(world string) time.Time {
	if world == "a" {
		return time.Unix(0, 0).UTC()
	}
	return time.Date(2031, 7, 9, 13, 17, 19, 0, time.UTC)
}
