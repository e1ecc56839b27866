package image

import (
	"slices"
	"time"
)

// GCPolicy says when images make room.
type GCPolicy struct {
	// HighPercent of disk use starts a collection, which frees until
	// LowPercent (defaults 85 and 80).
	HighPercent, LowPercent int
	// MinAge keeps images that were not used for less (default 2 minutes).
	MinAge time.Duration
}

// Disk is how full the images' file system is.
type Disk struct{ Capacity, Available uint64 }

// Candidate is an image with when a container last used it. InUse ones stay.
type Candidate struct {
	Image
	LastUsed time.Time
	InUse    bool
}

// PlanGC returns the images to remove, the longest unused first.
func PlanGC(p GCPolicy, d Disk, now time.Time, cs []Candidate) []Candidate {
	if p.HighPercent == 0 {
		p.HighPercent, p.LowPercent = 85, 80
	}
	if p.MinAge == 0 {
		p.MinAge = 2 * time.Minute
	}
	if d.Capacity == 0 || 100*(d.Capacity-min(d.Available, d.Capacity))/d.Capacity < uint64(p.HighPercent) {
		return nil
	}
	wanted := int64(d.Capacity*uint64(100-p.LowPercent)/100) - int64(d.Available)
	cs = slices.Clone(cs)
	slices.SortStableFunc(cs, func(a, b Candidate) int { return a.LastUsed.Compare(b.LastUsed) })
	var out []Candidate
	for _, c := range cs {
		if wanted <= 0 {
			break
		}
		if c.InUse || now.Sub(c.LastUsed) < p.MinAge || c.Labels[labelSource] != "" {
			continue
		}
		out = append(out, c)
		wanted -= c.Size
	}
	return out
}
