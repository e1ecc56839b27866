package nodepool

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones of the tables, whatever the machine has

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

func TestWindow(t *testing.T) {
	const layout = "2006-01-02 15:04 MST"
	for _, c := range []struct {
		name, days, start, length, zone string
		now                             string // UTC
		open                            bool
		next                            string // UTC; "" never
	}{
		{"before", "", "02:00", "1h", "UTC", "2026-03-04 01:59", false, "2026-03-04 02:00"},
		{"at the start", "", "02:00", "1h", "UTC", "2026-03-04 02:00", true, "2026-03-04 03:00"},
		{"in it", "", "02:00", "1h", "UTC", "2026-03-04 02:59", true, "2026-03-04 03:00"},
		{"at the end", "", "02:00", "1h", "UTC", "2026-03-04 03:00", false, "2026-03-05 02:00"},
		{"over midnight", "", "23:00", "2h", "UTC", "2026-03-05 00:30", true, "2026-03-05 01:00"},
		{"over midnight, of the day before", "Sat", "22:00", "6h", "UTC", "2026-03-08 03:59", true, "2026-03-08 04:00"}, // a Sunday
		{"over midnight, not of this day", "Sun", "22:00", "6h", "UTC", "2026-03-08 03:59", false, "2026-03-08 22:00"},
		{"another day", "Mon,Tue", "02:00", "1h", "UTC", "2026-03-04 02:30", false, "2026-03-09 02:00"}, // a Wednesday
		{"a week later", "Wed", "02:00", "1h", "UTC", "2026-03-04 03:00", false, "2026-03-11 02:00"},
		{"two days long", "Fri", "18:00", "60h", "UTC", "2026-03-08 12:00", true, "2026-03-09 06:00"},
		{"a whole week", "Mon", "00:00", "168h", "UTC", "2026-03-08 12:00", true, ""},
		{"longer than a week", "Mon", "00:00", "1000h", "UTC", "2026-03-08 12:00", true, ""},
		{"days that touch", "", "00:00", "24h", "UTC", "2026-03-04 12:00", true, ""},
		{"windows that touch", "Mon,Tue", "00:00", "24h", "UTC", "2026-03-09 12:00", true, "2026-03-11 00:00"},
		{"a zone, winter", "", "02:00", "1h", "Europe/Berlin", "2026-01-10 00:30", false, "2026-01-10 01:00"},
		{"a zone, summer", "", "02:00", "1h", "Europe/Berlin", "2026-07-10 00:30", true, "2026-07-10 01:00"},
		{"the day is that of the zone", "Mon", "00:30", "1h", "Pacific/Auckland", "2026-03-08 11:45", true, "2026-03-08 12:30"},
		// 2026-03-29 02:00 CET -> 03:00 CEST, at 01:00 UTC: there is no 02:30.
		{"the clock jumps over the start", "", "02:30", "1h", "Europe/Berlin", "2026-03-29 00:59", false, "2026-03-29 01:00"},
		{"the clock has jumped", "", "02:30", "1h", "Europe/Berlin", "2026-03-29 01:30", true, "2026-03-29 02:00"},
		{"the clock jumps in it", "", "01:30", "2h", "Europe/Berlin", "2026-03-29 02:29", true, "2026-03-29 02:30"},
		// 2026-10-25 03:00 CEST -> 02:00 CET, at 01:00 UTC: 02:30 is twice.
		{"the start is there twice", "", "02:30", "30m", "Europe/Berlin", "2026-10-25 00:15", false, "2026-10-25 00:30"},
		{"the first one counts", "", "02:30", "30m", "Europe/Berlin", "2026-10-25 00:45", true, "2026-10-25 01:00"},
		{"the second does not", "", "02:30", "30m", "Europe/Berlin", "2026-10-25 01:45", false, "2026-10-26 01:30"},
		// 2024-03-31 00:00 -> 01:00 in Beirut, at 22:00 UTC the day before.
		{"there is no midnight", "", "00:00", "1h", "Asia/Beirut", "2024-03-30 21:59", false, "2024-03-30 22:00"},
		{"there was no midnight", "", "00:30", "1h", "Asia/Beirut", "2024-03-30 22:10", true, "2024-03-30 23:00"},
	} {
		length, err := time.ParseDuration(c.length)
		if err != nil {
			t.Fatal(err)
		}
		w := &v1alpha1.RebootWindow{Start: c.start, Duration: metav1.Duration{Duration: length}, Timezone: c.zone}
		if c.days != "" {
			w.Days = strings.Split(c.days, ",")
		}
		now, err := time.Parse(layout, c.now+" UTC")
		if err != nil {
			t.Fatal(err)
		}
		is, next, err := open(w, now)
		got := ""
		if !next.IsZero() {
			got = next.UTC().Format("2006-01-02 15:04")
		}
		if err != nil || is != c.open || got != c.next {
			t.Errorf("%s: open %v, next %q, %v; want %v, %q", c.name, is, got, err, c.open, c.next)
		}
	}
}

func TestWindowThatCannotBeRead(t *testing.T) {
	hour := metav1.Duration{Duration: time.Hour}
	for _, w := range []*v1alpha1.RebootWindow{
		{Start: "02:00", Duration: hour, Timezone: "Nowhere/Land"}, {Start: "2 am", Duration: hour}, {Start: "02:00"},
	} {
		if is, _, err := open(w, noon); is || err == nil {
			t.Errorf("%+v: open %v, %v", w, is, err)
		}
	}
	if is, next, err := open(nil, noon); !is || !next.IsZero() || err != nil {
		t.Error("without a window nodes may always reboot")
	}
}

// Whatever the window: it is open until it closes and closed until it opens,
// and never longer than it says where days do not touch.
func TestWindowsAreConsistent(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu"}
	days := []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		w := &v1alpha1.RebootWindow{
			Start:    time.Date(2026, 1, 1, rng.IntN(24), rng.IntN(60), 0, 0, time.UTC).Format("15:04"),
			Duration: metav1.Duration{Duration: time.Duration(1+rng.IntN(30*60)) * time.Minute}, Timezone: zones[rng.IntN(len(zones))],
		}
		for _, d := range days {
			if rng.IntN(3) == 0 {
				w.Days = append(w.Days, d)
			}
		}
		now := time.Date(2026, 1, 1, 0, rng.IntN(365*24*60), 0, 0, time.UTC)
		is, next, err := open(w, now)
		if err != nil {
			t.Fatal(err)
		}
		if next.IsZero() {
			continue
		}
		if !next.After(now) {
			t.Errorf("%+v at %s: next is %s", w, now, next)
		}
		before, _, _ := open(w, next.Add(-time.Second))
		after, _, _ := open(w, next)
		if before != is || after == is {
			t.Errorf("%+v at %s: open %v; before %s %v, then %v", w, now, is, next, before, after)
		}
		if len(w.Days) == 1 && is && next.Sub(now) > w.Duration.Duration {
			t.Errorf("%+v at %s: open until %s", w, now, next)
		}
	}
}
