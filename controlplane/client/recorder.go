package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/utils/clock"

	"github.com/writ-os/writ/schema"
)

const (
	recorderQueue   = 1000 // events that wait to be written; more are dropped
	recorderRetries = 12   // attempts where the server cannot be reached
	recorderPause   = 5 * time.Second

	// What a recorder remembers of, to count up what is alike: what was said last.
	// A component of one host speaks of the objects of that host, others of those
	// of the cluster. Upstream's 4,096 take a megabyte and more of each of them, in
	// twenty pieces for each pod that has come and gone.
	recallHost    = 512
	recallCluster = 1024
)

// Recorder writes events (v1 Event) about objects. Similar events are
// counted up, many of one kind become one, and a source that talks too much
// about one object is cut short: the rules are upstream's own
// (client-go's EventCorrelator).
//
// Recording never blocks and never fails: events wait in a bounded queue for
// Run, which writes them one by one. A nil Recorder records nothing.
type Recorder struct {
	client     Writer
	source     corev1.EventSource
	correlator *record.EventCorrelator
	queue      chan *corev1.Event
	dropped    atomic.Int64
	named      atomic.Int64 // the time in the last event's name

	// Log gets the events that could not be written. Default: none.
	Log *slog.Logger
}

// NewRecorder returns a recorder for a component of a host. It starts nothing.
func NewRecorder(c Writer, component, host string) *Recorder {
	recall := record.CorrelatorOptions{Clock: clock.RealClock{}, LRUCacheSize: recallCluster}
	if host != "" {
		recall.LRUCacheSize = recallHost
	}
	return &Recorder{
		client:     c,
		source:     corev1.EventSource{Component: component, Host: host},
		correlator: record.NewEventCorrelatorWithOptions(recall),
		queue:      make(chan *corev1.Event, recorderQueue),
	}
}

// Of returns a recorder for a component of a host, of which there are many in one
// process: they share what they remember of. What is alike is of one component.
func (r *Recorder) Of(component, host string) *Recorder {
	source := corev1.EventSource{Component: component, Host: host}
	return &Recorder{client: r.client, source: source, correlator: r.correlator, queue: make(chan *corev1.Event, recorderQueue), Log: r.Log}
}

// Event records that something happened to an object. The type is
// corev1.EventTypeNormal or EventTypeWarning.
func (r *Recorder) Event(o schema.Object, eventtype, reason, message string) {
	if r == nil {
		return
	}
	r.EventAbout(ReferenceTo(o), eventtype, reason, message)
}

// Eventf is Event with a format.
func (r *Recorder) Eventf(o schema.Object, eventtype, reason, format string, args ...any) {
	if r == nil {
		return
	}
	r.Event(o, eventtype, reason, fmt.Sprintf(format, args...))
}

// EventAbout records an event about a reference: a container of a pod
// (FieldPath), or an object that is not at hand.
func (r *Recorder) EventAbout(ref corev1.ObjectReference, eventtype, reason, message string) {
	if r == nil {
		return
	}
	select {
	case r.queue <- r.newEvent(ref, eventtype, reason, message):
	default:
		r.dropped.Add(1)
	}
}

// Dropped counts the events that found the queue full.
func (r *Recorder) Dropped() int64 { return r.dropped.Load() }

// ReferenceTo returns a reference to an object as events carry it.
func ReferenceTo(o schema.Object) corev1.ObjectReference {
	ref := corev1.ObjectReference{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
	}
	if r := schema.ResourceOf(o); r != nil {
		ref.APIVersion, ref.Kind = r.APIVersion(), r.Kind
	}
	return ref
}

// stamp returns the time for the name of an event: no two get the same.
func (r *Recorder) stamp(now time.Time) int64 {
	for {
		last := r.named.Load()
		next := max(now.UnixNano(), last+1)
		if r.named.CompareAndSwap(last, next) {
			return next
		}
	}
}

func (r *Recorder) newEvent(ref corev1.ObjectReference, eventtype, reason, message string) *corev1.Event {
	t := metav1.Now()
	namespace := ref.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &corev1.Event{
		TypeMeta:            metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:          metav1.ObjectMeta{Name: util.GenerateEventName(ref.Name, r.stamp(t.Time)), Namespace: namespace},
		InvolvedObject:      ref,
		Reason:              reason,
		Message:             message,
		FirstTimestamp:      t,
		LastTimestamp:       t,
		Count:               1,
		Type:                eventtype,
		Source:              r.source,
		ReportingController: r.source.Component,
		ReportingInstance:   r.source.Host,
	}
}

// Run writes events until ctx is done.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev := <-r.queue:
			r.record(ctx, ev)
		}
	}
}

// record writes one event, again and again while the server is away.
func (r *Recorder) record(ctx context.Context, ev *corev1.Event) {
	result, err := r.correlator.EventCorrelate(ev)
	if err != nil || result.Skip {
		return
	}
	for range recorderRetries {
		err := r.write(ctx, result)
		var status apierrors.APIStatus
		if err == nil || errors.As(err, &status) {
			if err != nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) && !apierrors.IsAlreadyExists(err) && r.Log != nil {
				r.Log.Warn("event refused", "event", result.Event.Message, "err", err)
			}
			return // refused for good: the object or its namespace is going
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(recorderPause):
		}
	}
}

// write creates an event, or counts one up that exists.
func (r *Recorder) write(ctx context.Context, result *record.EventCorrelateResult) error {
	ev := result.Event
	events := schema.ResourceFor[*corev1.Event]()
	var stored schema.Object
	err := error(nil)
	patched := ev.Count > 1
	if patched {
		stored, err = r.client.Patch(ctx, events, schema.KeyOf(ev), types.StrategicMergePatchType, result.Patch, WriteOptions{})
	}
	if !patched || apierrors.IsNotFound(err) {
		ev.ResourceVersion = "" // it may come from the correlator's memory of one that has expired
		ev.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}
		stored, err = r.client.Create(ctx, events, ev, WriteOptions{})
	}
	if err != nil {
		return err
	}
	if e, ok := stored.(*corev1.Event); ok {
		r.correlator.UpdateState(e)
	}
	return nil
}
