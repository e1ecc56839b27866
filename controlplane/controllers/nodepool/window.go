package nodepool

import (
	"fmt"
	"slices"
	"time"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// maxWindow bounds a window: one that is open for longer is always open.
const maxWindow = 7 * 24 * time.Hour

// open says whether nodes may be drained and rebooted at a time, and when that
// changes next; a zero time for never. The day of a window is the one on which
// it opens, so that one of Saturday at 22:00 ends on Sunday.
func open(w *v1alpha1.RebootWindow, now time.Time) (bool, time.Time, error) {
	if w == nil {
		return true, time.Time{}, nil
	}
	zone, err := time.LoadLocation(w.Timezone)
	if err != nil {
		return false, time.Time{}, fmt.Errorf("spec.rebootWindow.timezone: %w", err)
	}
	start, err := time.Parse("15:04", w.Start)
	if err != nil {
		return false, time.Time{}, fmt.Errorf("spec.rebootWindow.start: %w", err)
	}
	length := min(w.Duration.Duration, maxWindow)
	if length <= 0 {
		return false, time.Time{}, fmt.Errorf("spec.rebootWindow.duration: must be more than 0")
	}
	// Windows may touch and overlap: the end is that of the last in the row.
	local := now.In(zone)
	var until time.Time
	for day := -8; day <= 15; day++ {
		date := time.Date(local.Year(), local.Month(), local.Day()+day, 12, 0, 0, 0, zone)
		if len(w.Days) > 0 && !slices.Contains(w.Days, date.Format("Mon")) {
			continue
		}
		opens := clock(date, start.Hour(), start.Minute())
		closes := opens.Add(length)
		switch {
		case opens.After(now) && until.IsZero():
			return false, opens, nil
		case opens.After(now) && opens.After(until):
			return true, until, nil
		case closes.After(now) && closes.After(until):
			until = closes
		}
	}
	// Fifteen days without an end: it is always open.
	return !until.IsZero(), time.Time{}, nil
}

// clock is when the clock of a zone shows a time on a date. Where it jumps over
// it, that is the moment of the jump; where it shows it twice, the first time.
func clock(date time.Time, hour, minute int) time.Time {
	t := time.Date(date.Year(), date.Month(), date.Day(), hour, minute, 0, 0, date.Location())
	begin, end := t.ZoneBounds()
	_, offset := t.Zone()
	asked := time.Date(date.Year(), date.Month(), date.Day(), hour, minute, 0, 0, time.UTC)
	// time.Date may come out on either side of a jump.
	switch shown := t.Unix() + int64(offset); {
	case shown > asked.Unix():
		return begin
	case shown < asked.Unix():
		return end
	}
	if !begin.IsZero() {
		_, earlier := begin.Add(-time.Nanosecond).Zone()
		if first := t.Add(time.Duration(offset-earlier) * time.Second); first.Before(begin) {
			return first
		}
	}
	return t
}
