package schema

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// convertEvent converts between core/v1 and events.k8s.io/v1. Both say the same
// under other names.
func convertEvent(o Object, to schema.GroupVersionKind) (Object, error) {
	meta := metav1.TypeMeta{APIVersion: to.GroupVersion().String(), Kind: to.Kind}
	switch e := o.(type) {
	case *eventsv1.Event:
		e = e.DeepCopy()
		c := &corev1.Event{
			TypeMeta: meta, ObjectMeta: e.ObjectMeta,
			InvolvedObject: e.Regarding, Reason: e.Reason, Message: e.Note, Source: e.DeprecatedSource,
			FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp, Count: e.DeprecatedCount,
			Type: e.Type, EventTime: e.EventTime, Action: e.Action, Related: e.Related,
			ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
		}
		if e.Series != nil {
			c.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
		}
		return c, nil
	case *corev1.Event:
		e = e.DeepCopy()
		c := &eventsv1.Event{
			TypeMeta: meta, ObjectMeta: e.ObjectMeta,
			Regarding: e.InvolvedObject, Reason: e.Reason, Note: e.Message, DeprecatedSource: e.Source,
			DeprecatedFirstTimestamp: e.FirstTimestamp, DeprecatedLastTimestamp: e.LastTimestamp, DeprecatedCount: e.Count,
			Type: e.Type, EventTime: e.EventTime, Action: e.Action, Related: e.Related,
			ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
		}
		if e.Series != nil {
			c.Series = &eventsv1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
		}
		return c, nil
	}
	return nil, fmt.Errorf("%T is no event", o)
}
