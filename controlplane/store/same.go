package store

import (
	"bytes"
	"hash/maphash"
	"runtime"
	"strings"
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

// settle gives an object that has just entered the store the shape in which it
// lies there for long: what many objects say alike is there once, and an Event,
// of which there are ten thousand, is a few pieces of memory instead of forty.
// After a burst of work the pieces that live on are what keeps pages of the heap
// from being given back.
func settle(o schema.Object) {
	acc, ok := o.(metav1.ObjectMetaAccessor)
	if !ok {
		return
	}
	m, ok := acc.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return
	}
	for i := range m.ManagedFields {
		f := &m.ManagedFields[i].FieldsV1
		*f = alike.one(*f)
	}
	if e, ok := o.(*corev1.Event); ok {
		join(eventStrings(e))
	}
}

// alike holds the field sets of managers: all pods of a ReplicaSet and all Events
// of a component have the same, half a kilobyte and more each.
var alike = fieldSets{seed: maphash.MakeSeed(), sets: map[uint64]weak.Pointer[metav1.FieldsV1]{}}

// fieldSets knows each field set that an object of this process has, by its hash.
// It keeps none alive. (apimachinery has the like behind the build tag
// fieldsv1string, which every build of the project would have to be given.)
type fieldSets struct {
	seed maphash.Seed

	mu   sync.Mutex
	sets map[uint64]weak.Pointer[metav1.FieldsV1]
}

// leastFieldSet is the length, in bytes, from which it pays to look.
const leastFieldSet = 32

// one returns the set that is equal to f and was seen first. Nobody may change it.
func (s *fieldSets) one(f *metav1.FieldsV1) *metav1.FieldsV1 {
	raw := f.GetRawBytes()
	if len(raw) < leastFieldSet {
		return f
	}
	h := maphash.Bytes(s.seed, raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.sets[h].Value(); known != nil {
		if bytes.Equal(known.GetRawBytes(), raw) {
			return known
		}
		return f // another one with this hash: as if nobody knew it
	}
	s.sets[h] = weak.Make(f)
	runtime.AddCleanup(f, s.gone, h)
	return f
}

func (s *fieldSets) gone(h uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets[h].Value() == nil {
		delete(s.sets, h)
	}
}

// join lets strings be parts of one.
func join(all []*string) {
	n := 0
	for _, p := range all {
		n += len(*p)
	}
	var b strings.Builder
	b.Grow(n)
	for _, p := range all {
		b.WriteString(*p)
	}
	whole := b.String()
	for _, p := range all {
		*p, whole = whole[:len(*p)], whole[len(*p):]
	}
}

// eventStrings are the strings of an Event, but for labels and annotations, which
// hardly one has.
func eventStrings(e *corev1.Event) []*string {
	of := &e.InvolvedObject
	all := []*string{
		&e.Kind, &e.APIVersion, &e.Name, &e.GenerateName, &e.Namespace, (*string)(&e.UID), &e.ResourceVersion,
		&of.Kind, &of.Namespace, &of.Name, (*string)(&of.UID), &of.APIVersion, &of.ResourceVersion, &of.FieldPath,
		&e.Reason, &e.Message, &e.Source.Component, &e.Source.Host, &e.Type, &e.Action, &e.ReportingController, &e.ReportingInstance,
	}
	for i := range e.ManagedFields {
		m := &e.ManagedFields[i]
		all = append(all, &m.Manager, (*string)(&m.Operation), &m.APIVersion, &m.FieldsType, &m.Subresource)
	}
	return all
}
