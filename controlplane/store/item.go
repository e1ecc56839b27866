package store

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/schema"
)

// Item is one state of one object. It never changes; all readers share it and
// its encodings.
type Item struct {
	Resource *schema.Resource
	Key      schema.Key
	Version  schema.ResourceVersion
	// Object has its resourceVersion set. Nobody may change it.
	Object schema.Object

	json, proto atomic.Pointer[[]byte]
	shown       atomic.Pointer[Item]
	used        atomic.Bool // an encoding, since the last forget
}

// use notes that an encoding was asked for. It is asked for by many at once: they
// only write what is not so yet.
func (it *Item) use() {
	if !it.used.Load() {
		it.used.Store(true)
	}
}

// forget drops what was encoded and has not been asked for since the last call:
// one list of all objects must not keep all their encodings for as long as they
// do not change. Whoever reads one now has it.
func (it *Item) forget() {
	if it.used.Swap(false) {
		return
	}
	if it.json.Load() != nil {
		it.json.Store(nil)
	}
	if it.proto.Load() != nil {
		it.proto.Store(nil)
	}
	if s := it.shown.Load(); s != nil {
		if s.forget(); s.json.Load() == nil && s.proto.Load() == nil {
			it.shown.CompareAndSwap(s, nil)
		}
	}
}

// forgetEncodings is forget of all items.
func (s *Store) forgetEncodings() {
	st := s.state.Load()
	for i, sl := range st.keys.slots {
		if sl == nil {
			continue
		}
		st.tables[i].items.Ascend(func(e *entry) bool {
			e.item.forget()
			return true
		})
	}
}

// Shown is the item as another version of its resource shows it, as it was
// given to Show last; nil when it has not been shown so yet.
func (it *Item) Shown(r *schema.Resource) *Item {
	if s := it.shown.Load(); s != nil && s.Resource == r {
		it.use()
		return s
	}
	return nil
}

// Show keeps what a version of the resource shows of the item, so that readers
// after share it with its encodings. Only the latest is kept. The item that it
// returns takes the object over.
func (it *Item) Show(r *schema.Resource, o schema.Object) *Item {
	o.SetResourceVersion(it.Version.String())
	s := &Item{Resource: r, Key: it.Key, Version: it.Version, Object: o}
	it.use()
	it.shown.Store(s)
	return s
}

// newItem takes over an object and gives it its version.
func newItem(r *schema.Resource, o schema.Object, v schema.ResourceVersion) *Item {
	o.SetResourceVersion(v.String())
	settle(o)
	return &Item{Resource: r, Key: schema.KeyOf(o), Version: v, Object: o}
}

// at returns the same object with another version, as an event of deletion
// shows it.
func (it *Item) at(v schema.ResourceVersion) *Item {
	return newItem(it.Resource, it.Object.DeepCopyObject().(schema.Object), v)
}

// JSON is the object with kind and apiVersion. It is encoded once, for all
// readers, who must not change it, and again when nobody has asked for a while.
func (it *Item) JSON() []byte {
	it.use()
	if b := it.json.Load(); b != nil {
		return *b
	}
	b, err := json.Marshal(it.Object)
	if err != nil {
		panic("store: encode " + it.Resource.Kind + " as JSON: " + err.Error()) // it was decoded: it encodes
	}
	it.json.Store(&b)
	return b
}

// protoMessage is what the generated types of k8s.io/api implement.
type protoMessage interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// Protobuf is the object in the envelope of Kubernetes. It is encoded once,
// for all readers, who must not change it. Kinds that have JSON only return nil.
func (it *Item) Protobuf() []byte {
	it.use()
	if b := it.proto.Load(); b != nil {
		return *b
	}
	m, ok := it.Object.(protoMessage)
	if !ok {
		return nil
	}
	b := appendEnvelope(nil, it.Resource, m)
	it.proto.Store(&b)
	return b
}

// AppendProtobuf appends what Protobuf returns, and keeps nothing: for the
// answer to one client. To encode again costs microseconds, and what nobody
// else asks for would lie in memory as long as the object.
func (it *Item) AppendProtobuf(b []byte) []byte {
	if p := it.proto.Load(); p != nil {
		return append(b, *p...)
	}
	m, ok := it.Object.(protoMessage)
	if !ok {
		return b
	}
	return appendEnvelope(b, it.Resource, m)
}

// appendEnvelope appends "k8s\x00" and a runtime.Unknown that holds m.
func appendEnvelope(b []byte, r *schema.Resource, m protoMessage) []byte {
	tm := runtime.TypeMeta{APIVersion: r.APIVersion(), Kind: r.Kind}
	n := m.Size()
	b = slices.Grow(b, 4+2+tm.Size()+1+binary.MaxVarintLen32+n+4)
	b = append(b, 'k', '8', 's', 0, 0x0a, byte(tm.Size())) // field 1: typeMeta
	b = b[:len(b)+tm.Size()]
	if _, err := tm.MarshalToSizedBuffer(b[len(b)-tm.Size():]); err != nil {
		panic("store: encode type of " + r.Kind + ": " + err.Error())
	}
	b = append(b, 0x12) // field 2: raw
	b = binary.AppendUvarint(b, uint64(n))
	b = b[:len(b)+n]
	if _, err := m.MarshalToSizedBuffer(b[len(b)-n:]); err != nil {
		panic("store: encode " + r.Kind + " as protobuf: " + err.Error())
	}
	return append(b, 0x1a, 0, 0x22, 0) // fields 3, 4: contentEncoding, contentType
}
