package batch

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema/kind/valid"
)

// longestCronJob leaves room in the name of a job for the time of its start.
const longestCronJob = 52

// cronJobErrors is what upstream has against a cron job, in its order. old is
// nil for a new one.
func cronJobErrors(s, old *batchv1.CronJobSpec) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	if s.Schedule == "" {
		errs = append(errs, field.Required(at.Child("schedule"), ""))
	} else {
		errs = append(errs, scheduleErrors(s, old != nil && strings.Contains(old.Schedule, "TZ"), at.Child("schedule"))...)
	}
	errs = append(errs, valid.NonNegativeIf(s.StartingDeadlineSeconds, at.Child("startingDeadlineSeconds"))...)
	if s.TimeZone != nil && (old == nil || old.TimeZone == nil || *old.TimeZone != *s.TimeZone) {
		errs = append(errs, zoneErrors(*s.TimeZone, at.Child("timeZone"))...)
	}
	errs = append(errs, valid.Word(s.ConcurrencyPolicy, at.Child("concurrencyPolicy"), batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	job, jobAt := &s.JobTemplate.Spec, at.Child("jobTemplate", "spec")
	errs = append(errs, jobSpecErrors(job, jobAt)...)
	if job.Selector != nil {
		errs = append(errs, field.Invalid(jobAt.Child("selector"), job.Selector, "`selector` will be auto-generated"))
	}
	if job.ManualSelector != nil && *job.ManualSelector {
		errs = append(errs, field.NotSupported(jobAt.Child("manualSelector"), *job.ManualSelector, []string{"nil", "false"}))
	}
	errs = append(errs, valid.NonNegativeIf(s.SuccessfulJobsHistoryLimit, at.Child("successfulJobsHistoryLimit"))...)
	return append(errs, valid.NonNegativeIf(s.FailedJobsHistoryLimit, at.Child("failedJobsHistoryLimit"))...)
}

func scheduleErrors(s *batchv1.CronJobSpec, hadZone bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if err := parseSchedule(s.Schedule); err != nil {
		errs = append(errs, field.Invalid(at, s.Schedule, err.Error()))
	}
	switch zone := strings.Contains(s.Schedule, "TZ"); {
	case zone && !hadZone:
		errs = append(errs, field.Invalid(at, s.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	case zone && s.TimeZone != nil:
		errs = append(errs, field.Invalid(at, s.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

// parseSchedule reads a schedule. The parser panics on some that begin with a
// zone.
func parseSchedule(s string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("invalid schedule format: %v", r)
		}
	}()
	_, err = cron.ParseStandard(s)
	return err
}

var zonePart = regexp.MustCompile(`^[A-Za-z\.\-_0-9+]{1,14}$`)

func zoneErrors(zone string, at *field.Path) field.ErrorList {
	if zone == "" {
		return field.ErrorList{field.Invalid(at, zone, "timeZone must be nil or non-empty string")}
	}
	for part := range strings.SplitSeq(zone, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !zonePart.MatchString(part) {
			return field.ErrorList{field.Invalid(at, zone, "unknown time zone "+zone)}
		}
	}
	var errs field.ErrorList
	if strings.EqualFold(zone, "Local") {
		errs = append(errs, field.Invalid(at, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(zone); err != nil {
		errs = append(errs, field.Invalid(at, zone, err.Error()))
	}
	return errs
}
