package cronjob

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// tooMany is how many missed times are a sign of a wrong clock.
const tooMany = 100

// decision is what to do about one CronJob.
type decision struct {
	start  *batchv1.Job
	remove []*batchv1.Job
	status batchv1.CronJobStatus
	events []note
	again  time.Duration
}

type note struct{ kind, reason, message string }

func (d *decision) note(kind, reason, format string, args ...any) {
	d.events = append(d.events, note{kind, reason, fmt.Sprintf(format, args...)})
}

// plan decides the next step. The error is that of a schedule nobody can read.
func plan(c *batchv1.CronJob, jobs []*batchv1.Job, now time.Time) (decision, error) {
	d := decision{status: *c.Status.DeepCopy()}
	active := d.look(c, jobs)
	d.remove = beyondHistory(c, jobs)
	if c.DeletionTimestamp != nil {
		return d, nil
	}
	sched, err := parse(c)
	if err != nil {
		return d, err
	}
	if c.Spec.Suspend != nil && *c.Spec.Suspend {
		return d, nil
	}
	due, missed := lastDue(c, sched, now)
	if next := sched.Next(now); !next.IsZero() { // else the schedule names no day that there is
		d.again = max(next.Sub(now), time.Second)
	}
	if missed > tooMany {
		d.note(corev1.EventTypeWarning, "TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	if due.IsZero() {
		return d, nil
	}
	if s := c.Spec.StartingDeadlineSeconds; s != nil && due.Add(time.Duration(*s)*time.Second).Before(now) {
		d.note(corev1.EventTypeWarning, "MissSchedule", "Missed scheduled time to start a job: %s", due.UTC().Format(time.RFC1123Z))
		return d, nil
	}
	at := metav1.NewTime(due)
	if slices.ContainsFunc(jobs, func(j *batchv1.Job) bool { return j.Name == jobName(c, due) }) {
		d.status.LastScheduleTime = &at
		return d, nil
	}
	switch {
	case c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(active) > 0:
		d.note(corev1.EventTypeNormal, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
		return d, nil
	case c.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent:
		d.remove = append(d.remove, active...)
		d.status.Active = nil
	}
	d.start = newJob(c, due)
	d.status.LastScheduleTime = &at
	return d, nil
}

// look brings the status in step with the Jobs.
func (d *decision) look(c *batchv1.CronJob, jobs []*batchv1.Job) (active []*batchv1.Job) {
	d.status.Active = nil
	for _, j := range jobs {
		end := finish(j)
		was := slices.ContainsFunc(c.Status.Active, func(r corev1.ObjectReference) bool { return r.UID == j.UID })
		switch {
		case end == "":
			active = append(active, j)
			d.status.Active = append(d.status.Active, client.ReferenceTo(j))
		case end == batchv1.JobComplete && j.Status.CompletionTime != nil &&
			(d.status.LastSuccessfulTime == nil || d.status.LastSuccessfulTime.Before(j.Status.CompletionTime)):
			d.status.LastSuccessfulTime = j.Status.CompletionTime
		}
		if was && end != "" {
			d.note(corev1.EventTypeNormal, "SawCompletedJob", "Saw completed job: %s, condition: %v", j.Name, end)
		}
	}
	for i := range d.status.Active { // versions change with every step of a Job
		d.status.Active[i].ResourceVersion = ""
		for _, r := range c.Status.Active {
			if r.UID == d.status.Active[i].UID {
				d.status.Active[i].ResourceVersion = r.ResourceVersion
			}
		}
	}
	return active
}

// finish is how a Job ended; "" for one that has not.
func finish(j *batchv1.Job) batchv1.JobConditionType {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// parse reads the schedule in its time zone.
func parse(c *batchv1.CronJob) (cron.Schedule, error) {
	text := c.Spec.Schedule
	if z := c.Spec.TimeZone; z != nil {
		if _, err := time.LoadLocation(*z); err != nil {
			return nil, err
		}
		text = "TZ=" + *z + " " + text
	}
	return cron.ParseStandard(text)
}

// lastDue returns the latest time of the schedule that has come and was not
// started, and how many there were. Far back it does not look.
func lastDue(c *batchv1.CronJob, sched cron.Schedule, now time.Time) (due time.Time, missed int) {
	from := c.CreationTimestamp.Time
	if c.Status.LastScheduleTime != nil {
		from = c.Status.LastScheduleTime.Time
	}
	if s := c.Spec.StartingDeadlineSeconds; s != nil {
		if limit := now.Add(-time.Duration(*s) * time.Second); limit.After(from) {
			from = limit
		}
	}
	for t := sched.Next(from); !t.After(now) && !t.IsZero(); t = sched.Next(t) {
		due = t
		if missed++; missed > tooMany {
			return latest(sched, due, now), missed
		}
	}
	return due, missed
}

// latest finds the last time of the schedule before now without walking all.
func latest(sched cron.Schedule, from, now time.Time) time.Time {
	step := max(sched.Next(from).Sub(from), time.Minute)
	for back := 2 * step; ; back *= 2 {
		begin := now.Add(-back)
		if !begin.After(from) {
			begin = from
		}
		var last time.Time
		for t := sched.Next(begin); !t.After(now) && !t.IsZero(); t = sched.Next(t) {
			last = t
		}
		if !last.IsZero() || begin.Equal(from) {
			return last
		}
	}
}

// jobName is the CronJob's name and the minute of the schedule: the same time
// never starts twice.
func jobName(c *batchv1.CronJob, due time.Time) string {
	return c.Name + "-" + strconv.FormatInt(due.Unix()/60, 10)
}

func newJob(c *batchv1.CronJob, due time.Time) *batchv1.Job {
	t := c.Spec.JobTemplate.DeepCopy()
	annotations := maps.Clone(t.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[batchv1.CronJobScheduledTimestampAnnotation] = due.Format(time.RFC3339)
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: jobName(c, due), Labels: t.Labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, schema.ResourceOf(c).GVK())},
		},
		Spec: t.Spec,
	}
}

// beyondHistory returns finished Jobs that are more than the limits keep,
// oldest first.
func beyondHistory(c *batchv1.CronJob, jobs []*batchv1.Job) []*batchv1.Job {
	excess := func(end batchv1.JobConditionType, limit *int32, standard int) []*batchv1.Job {
		var of []*batchv1.Job
		for _, j := range jobs {
			if finish(j) == end && j.DeletionTimestamp == nil {
				of = append(of, j)
			}
		}
		slices.SortFunc(of, func(a, b *batchv1.Job) int {
			return cmp.Or(started(a).Compare(started(b)), cmp.Compare(a.Name, b.Name))
		})
		if limit != nil {
			standard = int(*limit)
		}
		return of[:max(len(of)-standard, 0)]
	}
	return append(excess(batchv1.JobComplete, c.Spec.SuccessfulJobsHistoryLimit, 3), excess(batchv1.JobFailed, c.Spec.FailedJobsHistoryLimit, 1)...)
}

func started(j *batchv1.Job) time.Time {
	if j.Status.StartTime != nil {
		return j.Status.StartTime.Time
	}
	return j.CreationTimestamp.Time
}
