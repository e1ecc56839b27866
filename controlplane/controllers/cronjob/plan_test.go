package cronjob

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func hourly() *batchv1.CronJob {
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "c", CreationTimestamp: metav1.NewTime(midnight)},
		Spec:       batchv1.CronJobSpec{Schedule: "0 * * * *", ConcurrencyPolicy: batchv1.AllowConcurrent},
	}
}

func run(name string, end batchv1.JobConditionType, at time.Time) *batchv1.Job {
	start := metav1.NewTime(at)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Status: batchv1.JobStatus{StartTime: &start}}
	if end != "" {
		j.Status.CompletionTime = &start
		j.Status.Conditions = []batchv1.JobCondition{{Type: end, Status: corev1.ConditionTrue}}
	}
	return j
}

func TestPlan(t *testing.T) {
	yes, minute := true, int64(60)
	last := metav1.NewTime(midnight.Add(3 * time.Hour))
	for _, c := range []struct {
		name   string
		change func(*batchv1.CronJob)
		jobs   []*batchv1.Job
		at     time.Duration
		start  string // minutes since midnight in the name
		remove int
		again  time.Duration
	}{
		{"not yet", nil, nil, 59 * time.Minute, "", 0, time.Minute},
		{"on time", nil, nil, time.Hour, "1h0m0s", 0, time.Hour},
		{"late, the latest only", nil, nil, 5*time.Hour + 10*time.Minute, "5h0m0s", 0, 50 * time.Minute},
		{"once for each time", func(c *batchv1.CronJob) { c.Status.LastScheduleTime = &last }, nil, 3*time.Hour + time.Minute, "", 0, 59 * time.Minute},
		{"suspended", func(c *batchv1.CronJob) { c.Spec.Suspend = &yes }, nil, 5 * time.Hour, "", 0, 0},
		{"too late", func(c *batchv1.CronJob) { c.Spec.StartingDeadlineSeconds = &minute }, nil, time.Hour + 2*time.Minute, "", 0, 58 * time.Minute},
		{"not while one runs", func(c *batchv1.CronJob) { c.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent }, []*batchv1.Job{run("x", "", midnight)}, time.Hour, "", 0, time.Hour},
		{"in place of one that runs", func(c *batchv1.CronJob) { c.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent }, []*batchv1.Job{run("x", "", midnight)}, time.Hour, "1h0m0s", 1, time.Hour},
		{"years later", nil, nil, 5 * 365 * 24 * time.Hour, "43800h0m0s", 0, time.Hour},
	} {
		cron := hourly()
		if c.change != nil {
			c.change(cron)
		}
		d, err := plan(cron, c.jobs, midnight.Add(c.at))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := ""
		if d.start != nil {
			var m int64
			if _, err := fmt.Sscanf(d.start.Name, "c-%d", &m); err != nil {
				t.Errorf("%s: name %s", c.name, d.start.Name)
			}
			got = time.Unix(m*60, 0).Sub(midnight).String()
		}
		if got != c.start || len(d.remove) != c.remove || d.again != c.again {
			t.Errorf("%s: starts %q, removes %d, again in %v, want %q, %d, %v", c.name, got, len(d.remove), d.again, c.start, c.remove, c.again)
		}
	}
}

func TestTimeZone(t *testing.T) {
	cron := hourly()
	cron.Spec.Schedule = "30 2 * * *"
	zone := "Asia/Kolkata"
	cron.Spec.TimeZone = &zone
	d, err := plan(cron, nil, midnight)
	if err != nil {
		t.Fatal(err)
	}
	if d.again != 21*time.Hour { // 02:30 in Kolkata is 21:00 UTC
		t.Errorf("again in %v", d.again)
	}
	cron.Spec.Schedule = "every now and then"
	if _, err := plan(cron, nil, midnight); err == nil {
		t.Error("read a schedule that is none")
	}
}

func TestHistory(t *testing.T) {
	var jobs []*batchv1.Job
	for i := range 6 {
		jobs = append(jobs, run(fmt.Sprintf("good%d", i), batchv1.JobComplete, midnight.Add(time.Duration(i)*time.Minute)))
		jobs = append(jobs, run(fmt.Sprintf("bad%d", i), batchv1.JobFailed, midnight.Add(time.Duration(i)*time.Minute)))
	}
	d, err := plan(hourly(), jobs, midnight)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, j := range d.remove {
		got[j.Name] = true
	}
	if len(got) != 8 || got["good3"] || got["bad5"] || !got["good2"] || !got["bad4"] {
		t.Errorf("removes %v", got)
	}
	if d.status.LastSuccessfulTime == nil || !d.status.LastSuccessfulTime.Time.Equal(midnight.Add(5*time.Minute)) {
		t.Errorf("last success: %v", d.status.LastSuccessfulTime)
	}
}

// A schedule of a day that there is not is looked at when the CronJob changes,
// and not before.
func TestScheduleThatNeverFires(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, schedule := range []string{"0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *"} {
		for _, zone := range []*string{nil, ptr.To("Europe/Berlin")} {
			c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", CreationTimestamp: metav1.NewTime(now.AddDate(-1, 0, 0))}, Spec: batchv1.CronJobSpec{Schedule: schedule, TimeZone: zone}}
			d, err := plan(c, nil, now)
			if err != nil || d.again != 0 || d.start != nil || len(d.events) > 0 {
				t.Errorf("%s: again in %v, start %v, %v", schedule, d.again, d.start, err)
			}
		}
	}
}
