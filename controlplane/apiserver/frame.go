package apiserver

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// The types of events that the store does not know.
const (
	bookmark   store.EventType = "BOOKMARK"
	errorEvent store.EventType = "ERROR"
)

// frameEncoder makes frames of a watch in one encoding and shape.
type frameEncoder struct {
	out      output
	include  metav1.IncludeObjectPolicy
	resource *schema.Resource
	table    rowTable
	headed   bool // column definitions of a Table have been sent
}

func (f *frameEncoder) contentType() string {
	if f.out.Media == mediaProtobuf {
		return "application/vnd.kubernetes.protobuf;stream=watch"
	}
	return "application/json"
}

// event encodes an event; plain objects share the frame of all watchers.
func (f *frameEncoder) event(t store.EventType, e *store.Event) []byte {
	if f.out.table() || f.out.partial() {
		return f.item(t, e.Item)
	}
	if f.out.Media == mediaProtobuf {
		return e.ProtobufFrame(t)
	}
	return e.JSONFrame(t)
}

func (f *frameEncoder) item(t store.EventType, it *store.Item) []byte {
	version := f.out.Convert.Version
	switch {
	case f.out.table():
		head := !f.headed
		f.headed = true
		return store.JSONFrame(t, appendTable(nil, f.table, it, version, f.include, head))
	case f.out.partial() && f.out.Media == mediaProtobuf:
		return store.ProtobufFrame(t, partialProtobuf(version, it))
	case f.out.partial():
		return store.JSONFrame(t, partialJSON(nil, version, it))
	case f.out.Media == mediaProtobuf:
		return store.ProtobufFrame(t, it.Protobuf())
	}
	return store.JSONFrame(t, it.JSON())
}

// bookmark says up to which version the client has seen everything.
func (f *frameEncoder) bookmark(v schema.ResourceVersion, initialEnd bool) []byte {
	o := f.resource.New()
	o.SetResourceVersion(v.String())
	if initialEnd {
		o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return f.item(bookmark, &store.Item{Resource: f.resource, Version: v, Object: o})
}

// failure ends a watch with a Status.
func (f *frameEncoder) failure(err error) []byte {
	st := statusOf(err)
	if f.out.Media == mediaProtobuf {
		if b, err := schema.Encode(st, schema.Protobuf); err == nil {
			return store.ProtobufFrame(errorEvent, b)
		}
	}
	b, _ := json.Marshal(st)
	return store.JSONFrame(errorEvent, b)
}
