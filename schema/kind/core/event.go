package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema/kind/valid"
)

// Bounds of the texts of an event, in bytes.
const (
	maxEventWord    = 128
	maxEventMessage = 1024
)

// ReportErrors checks events that say when they happened to the microsecond.
func ReportErrors(e *corev1.Event, strict bool) field.ErrorList {
	if e.EventTime.IsZero() {
		return nil
	}
	controller := "reportingComponent" // as the older version spells it
	if strict {
		controller = "reportingController"
	}
	var errs field.ErrorList
	if e.ReportingController == "" {
		errs = append(errs, field.Required(field.NewPath(controller), ""))
	}
	errs = append(errs, valid.QualifiedName(e.ReportingController, field.NewPath(controller))...)
	word := func(name, value string) {
		if value == "" {
			errs = append(errs, field.Required(field.NewPath(name), ""))
		}
		if len(value) > maxEventWord {
			errs = append(errs, field.Invalid(field.NewPath(name), "", fmt.Sprintf("can have at most %v characters", maxEventWord)))
		}
	}
	word("reportingInstance", e.ReportingInstance)
	word("action", e.Action)
	word("reason", e.Reason)
	if len(e.Message) > maxEventMessage {
		errs = append(errs, field.Invalid(field.NewPath("message"), "", fmt.Sprintf("can have at most %v characters", maxEventMessage)))
	}
	return errs
}

// StrictEventErrors are what events.k8s.io/v1 adds for new events.
func StrictEventErrors(e *corev1.Event) field.ErrorList {
	errs := eventSeriesErrors(e)
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", e.Type)))
	}
	unset := func(name string, isSet bool) {
		if isSet {
			errs = append(errs, field.Invalid(field.NewPath(name), "", "needs to be unset"))
		}
	}
	unset("firstTimestamp", !e.FirstTimestamp.IsZero())
	unset("lastTimestamp", !e.LastTimestamp.IsZero())
	unset("count", e.Count != 0)
	unset("source", e.Source != corev1.EventSource{})
	return errs
}

func eventSeriesErrors(e *corev1.Event) field.ErrorList {
	if e.Series == nil {
		return nil
	}
	var errs field.ErrorList
	if e.Series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if e.Series.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}

// StrictEventUpdateErrors: of an event only the series goes on.
func StrictEventUpdateErrors(e, old *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	if !apiequality.Semantic.DeepEqual(e.Series, old.Series) {
		errs = eventSeriesErrors(e)
	}
	keep := func(name string, is, was any) { errs = append(errs, valid.Keep(field.NewPath(name), is, was)...) }
	keep("involvedObject", e.InvolvedObject, old.InvolvedObject)
	keep("reason", e.Reason, old.Reason)
	keep("message", e.Message, old.Message)
	keep("source", e.Source, old.Source)
	keep("firstTimestamp", e.FirstTimestamp, old.FirstTimestamp)
	keep("lastTimestamp", e.LastTimestamp, old.LastTimestamp)
	keep("count", e.Count, old.Count)
	keep("type", e.Type, old.Type)
	if !e.EventTime.Equal(&old.EventTime) {
		keep("eventTime", e.EventTime, old.EventTime)
	}
	keep("action", e.Action, old.Action)
	keep("related", e.Related, old.Related)
	keep("reportingController", e.ReportingController, old.ReportingController)
	keep("reportingInstance", e.ReportingInstance, old.ReportingInstance)
	return errs
}
