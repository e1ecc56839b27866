package store

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"runtime"
	"testing"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func managed(raw string) []metav1.ManagedFieldsEntry {
	at := metav1.NewTime(time.Unix(1, 0))
	return []metav1.ManagedFieldsEntry{
		{Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(raw)},
		{Manager: "short", FieldsV1: metav1.NewFieldsV1("{}")},
		{Manager: "none"},
	}
}

func anEvent(i int) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprint("e-", i), Namespace: "default", UID: "u", Labels: map[string]string{"a": "b"}, ManagedFields: managed(`{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{}}`)},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p", UID: "x", APIVersion: "v1", ResourceVersion: "7", FieldPath: "spec"},
		Reason:         "Pulled", Message: "image ä is there", Source: corev1.EventSource{Component: "kubelet", Host: "n"}, Type: "Normal", Count: 3,
		ReportingController: "kubelet", ReportingInstance: "n",
	}
}

// What settles says the same as before; what is alike is there once.
func TestSettle(t *testing.T) {
	a, b := anEvent(1), anEvent(1)
	settle(a)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("an Event became %+v, want %+v", a, b)
	}
	settle(b)
	if a.ManagedFields[0].FieldsV1 != b.ManagedFields[0].FieldsV1 {
		t.Error("two Events have field sets of their own")
	}
	if a.ManagedFields[1].FieldsV1 == b.ManagedFields[1].FieldsV1 {
		t.Error("a set that is smaller than the note of it was looked up")
	}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: managed(`{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{}}`)}}
	settle(other)
	if other.ManagedFields[0].FieldsV1 != a.ManagedFields[0].FieldsV1 {
		t.Error("a Pod has a field set of its own")
	}
	// Every string of an Event is in the list of them: none is left where it was.
	whole := map[string]bool{}
	fill(reflect.ValueOf(b).Elem(), "", whole)
	for _, p := range eventStrings(b) {
		delete(whole, *p)
	}
	if len(whole) > 0 {
		t.Errorf("strings that are not joined: %v", whole)
	}
}

// fill gives every string of an Event its path for a value.
func fill(v reflect.Value, path string, all map[string]bool) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(path)
		all[path] = true
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.Time]() || v.Type() == reflect.TypeFor[metav1.MicroTime]() {
			return
		}
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; name {
			case "Labels", "Annotations", "OwnerReferences", "Finalizers", "SelfLink", "Related":
			default:
				fill(v.Field(i), path+"."+name, all)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if v.Type().Elem().Kind() == reflect.Struct {
				fill(v.Index(i), fmt.Sprint(path, i), all)
			}
		}
	}
}

// The list of what is alike keeps nothing alive, and forgets what is gone.
func TestFieldSetsForget(t *testing.T) {
	s := &fieldSets{seed: maphash.MakeSeed(), sets: map[uint64]weak.Pointer[metav1.FieldsV1]{}}
	for i := range 100 {
		s.one(metav1.NewFieldsV1(fmt.Sprintf("%040d", i)))
	}
	for range 100 { // cleanups run some time after a collection
		runtime.GC()
		s.mu.Lock()
		n := len(s.sets)
		s.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond) // the runtime's own goroutine is at work
	}
	t.Error("sets that no object has are still known")
}

func BenchmarkSettle(b *testing.B) {
	for b.Loop() {
		settle(anEvent(1))
	}
}

func BenchmarkUnsettled(b *testing.B) {
	for b.Loop() {
		_ = anEvent(1)
	}
}
