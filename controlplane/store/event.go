package store

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/schema"
)

// EventType is what happened to an object.
type EventType string

// The types of events, with the words of the wire.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
)

// Event is one change of one object. All watchers share it.
type Event struct {
	Type EventType
	// Item is the new state; of a Deleted event the last state, with the
	// version of the deletion.
	Item *Item
	// Prev is the state before; nil for Added.
	Prev *Item

	packed *packed // in the log, in the place of Item and Prev

	when   time.Time
	at     schema.ResourceVersion // of the change, when that is not the item's
	gone   atomic.Pointer[Item]
	frames [2][3]atomic.Pointer[[]byte]
}

// Version is the version of the change.
func (e *Event) Version() schema.ResourceVersion {
	if e.packed != nil {
		return e.at
	}
	return max(e.at, e.Item.Version)
}

// Gone is the state before with the version of the event: what a watcher whose
// selector matches no longer gets as DELETED. nil for Added.
func (e *Event) Gone() *Item {
	if e.Type == Deleted {
		return e.Item
	}
	if e.Prev == nil {
		return nil
	}
	if it := e.gone.Load(); it != nil {
		return it
	}
	it := e.Prev.at(e.Item.Version)
	e.gone.Store(it)
	return it
}

// JSONFrame is the event's item as one line of a JSON watch, under a type that
// may differ from the event's: a selector makes ADDED out of MODIFIED. It is
// encoded once for all watchers.
func (e *Event) JSONFrame(t EventType) []byte {
	return e.frame(0, t, func() []byte { return JSONFrame(t, e.Item.JSON()) })
}

// ProtobufFrame is the event's item as one frame of a protobuf watch; nil for
// kinds that have JSON only.
func (e *Event) ProtobufFrame(t EventType) []byte {
	obj := e.Item.Protobuf()
	if obj == nil {
		return nil
	}
	return e.frame(1, t, func() []byte { return ProtobufFrame(t, obj) })
}

func (e *Event) frame(encoding int, t EventType, encode func() []byte) []byte {
	i := 0
	switch t {
	case Modified:
		i = 1
	case Deleted:
		i = 2
	}
	p := &e.frames[encoding][i]
	if b := p.Load(); b != nil {
		return *b
	}
	b := encode()
	p.Store(&b)
	return b
}

// forget drops what was encoded for watchers, who have it by now, and of states
// that are no more. The state that is there now is forgotten with its table.
func (e *Event) forget() {
	if e.packed != nil {
		return
	}
	for i := range e.frames {
		for j := range e.frames[i] {
			if e.frames[i][j].Load() != nil {
				e.frames[i][j].Store(nil)
			}
		}
	}
	e.gone.Store(nil)
	if e.Prev != nil {
		e.Prev.forget()
	}
	if e.Type == Deleted {
		e.Item.forget()
	}
}

// JSONFrame writes one line of a JSON watch around an encoded object.
func JSONFrame(t EventType, object []byte) []byte {
	b := make([]byte, 0, len(object)+len(t)+24)
	b = append(b, `{"type":"`...)
	b = append(b, t...)
	b = append(b, `","object":`...)
	b = append(b, object...)
	return append(b, "}\n"...)
}

// ProtobufFrame writes one length-delimited frame of a protobuf watch around an
// encoded object.
func ProtobufFrame(t EventType, object []byte) []byte {
	w := metav1.WatchEvent{Type: string(t), Object: runtime.RawExtension{Raw: object}}
	b := make([]byte, 4+w.Size())
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if _, err := w.MarshalToSizedBuffer(b[4:]); err != nil {
		panic("store: encode watch event: " + err.Error())
	}
	return b
}
