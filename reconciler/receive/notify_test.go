package receive

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A host that tells of a push is looked at then, and not when its interval is
// over; so is one that was away.
func TestMirrorIsNotified(t *testing.T) {
	s, clone := seeded(t)
	up, copied := newBare(t), newBare(t)
	git(t, clone, "push", "-q", up.dir, "main")
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(Metrics{s.Remote})
	s.SetMirrors([]Mirror{
		{Repository: "cluster", URL: up.url, Pull: true, Refs: []string{"refs/heads/main"}, Interval: time.Hour},
		{Repository: "cluster", URL: copied.url, Interval: time.Hour},
	})
	stop := running(t, s)
	first := up.head(t)
	soon(t, "the copy follows", func() bool { return copied.head(t) == first && !s.Mirrors()[0].Looked.IsZero() })

	write(t, clone, map[string]string{"a": "x"})
	commit(t, clone, "x")
	git(t, clone, "push", "-q", up.dir, "main")
	sha := up.head(t)
	s.Notify("other")
	s.Notify("cluster")
	soon(t, "what was pushed there is here, and passed on", func() bool { return copied.head(t) == sha && s.Mirrors()[0].Refs["refs/heads/main"] == sha })

	up.away.Store(true)
	s.Notify("cluster")
	soon(t, "the absence is told", func() bool { return s.Mirrors()[0].Failures > 0 })
	want := `
# HELP writ_mirror_failing Whether the last exchange failed.
# TYPE writ_mirror_failing gauge
writ_mirror_failing{direction="Pull",repository="cluster",url="` + nameOf(up.url) + `"} 1
writ_mirror_failing{direction="Push",repository="cluster",url="` + nameOf(copied.url) + `"} 0
# HELP writ_mirror_failures_total Exchanges that failed.
# TYPE writ_mirror_failures_total counter
writ_mirror_failures_total{direction="Pull",repository="cluster",url="` + nameOf(up.url) + `"} 1
writ_mirror_failures_total{direction="Push",repository="cluster",url="` + nameOf(copied.url) + `"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "writ_mirror_failing", "writ_mirror_failures_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(reg, "writ_mirror_last_success_timestamp_seconds", "writ_mirror_in_step_timestamp_seconds"); err != nil || n != 4 {
		t.Errorf("%d times, %v", n, err)
	}
	up.away.Store(false)
	s.Notify("cluster")
	soon(t, "it is in step again", func() bool { return s.Mirrors()[0].Failures == 0 })
	stop()
	s.verify(t)
}
