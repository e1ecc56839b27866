package apiserver

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// typePrefix is how the JSON of every object of a kind begins.
func typePrefix(r *schema.Resource) string {
	return `{"kind":"` + r.Kind + `","apiVersion":"` + r.APIVersion() + `",`
}

// writeJSONList writes a list around the items' shared bytes. Items of a list
// do not repeat its kind.
func writeJSONList(b *body, r *schema.Resource, p *listPage) {
	b.addString(`{"kind":"` + r.ListKind + `","apiVersion":"` + r.APIVersion() + `","metadata":`)
	b.add(p.metadata())
	b.addString(`,"items":[`)
	prefix := typePrefix(r)
	for i, it := range p.items {
		if i > 0 {
			*b.buf = append(*b.buf, ',')
		}
		j := it.JSON()
		if rest, ok := bytes.CutPrefix(j, []byte(prefix)); ok {
			*b.buf = append(*b.buf, '{')
			j = rest
		}
		b.add(j)
	}
	b.addString("]}\n")
}

// writeCustomList does the same for custom resources, whose keys are sorted and
// whose items keep their kind.
func writeCustomList(b *body, r *schema.Resource, p *listPage) {
	b.addString(`{"apiVersion":"` + r.APIVersion() + `","items":[`)
	for i, it := range p.items {
		if i > 0 {
			*b.buf = append(*b.buf, ',')
		}
		b.add(it.JSON())
	}
	b.addString(`],"kind":"` + r.ListKind + `","metadata":`)
	if p.token == "" {
		b.addString(`{"continue":"",`) // there, though empty, as upstream writes it
		b.add(p.metadata()[1:])
	} else {
		b.add(p.metadata())
	}
	b.addString("}\n")
}

// writeProtobufList does the same in protobuf: field 1 of every list is its
// ListMeta, field 2 the items.
func writeProtobufList(b *body, r *schema.Resource, p *listPage) {
	size := 0
	for _, it := range p.items {
		size += fieldSize(len(message(it.Protobuf())))
	}
	writeEnvelope(b, runtime.TypeMeta{APIVersion: r.APIVersion(), Kind: r.ListKind}, p, size, func() {
		for _, it := range p.items {
			m := message(it.Protobuf())
			*b.buf = appendField(*b.buf, 2, len(m))
			b.add(m)
		}
	})
}

// writeEnvelope writes a list of a known size, of which items writes the items.
func writeEnvelope(b *body, tm runtime.TypeMeta, p *listPage, size int, items func()) {
	lm := metav1.ListMeta{ResourceVersion: p.version, Continue: p.token, RemainingItemCount: p.remaining}
	meta, _ := lm.Marshal()
	tmb, _ := tm.Marshal()
	head := appendField([]byte("k8s\x00"), 1, len(tmb))
	head = append(head, tmb...)
	head = appendField(head, 2, fieldSize(len(meta))+size)
	head = appendField(head, 1, len(meta))
	b.add(append(head, meta...))
	items()
	b.add([]byte{0x1a, 0, 0x22, 0}) // contentEncoding, contentType: empty
}

// appendField appends the tag and the length of a length-delimited field.
func appendField(b []byte, field, size int) []byte {
	b = append(b, byte(field<<3|2))
	return binary.AppendUvarint(b, uint64(size))
}

// fieldSize is how long a field of a size is with its tag and length.
func fieldSize(size int) int {
	n := 2
	for v := uint64(size); v >= 0x80; v >>= 7 {
		n++
	}
	return n + size
}

// message returns the message in the envelope of an encoded object.
func message(envelope []byte) []byte {
	if len(envelope) < 6 {
		return nil
	}
	b := envelope[4:]
	_, b = cutField(b) // typeMeta
	m, _ := cutField(b)
	return m
}

// cutField takes a length-delimited field off the front.
func cutField(b []byte) (field, rest []byte) {
	if len(b) == 0 {
		return nil, nil
	}
	size, n := binary.Uvarint(b[1:])
	if n <= 0 || uint64(len(b)-1-n) < size {
		return nil, nil
	}
	b = b[1+n:]
	return b[:size], b[size:]
}

// metadataOf returns the metadata of an item as JSON, cut out of its shared
// bytes.
func metadataOf(it *store.Item) []byte {
	if meta := withoutTemplateGeneration(it); meta != nil {
		b, _ := json.Marshal(meta) // strings and numbers
		return b
	}
	if rest, ok := bytes.CutPrefix(it.JSON(), []byte(typePrefix(it.Resource)+`"metadata":`)); ok {
		if n := objectEnd(rest); n > 0 {
			return rest[:n]
		}
	}
	if u, ok := it.Object.(*unstructured.Unstructured); ok {
		if meta, err := json.Marshal(u.Object["metadata"]); err == nil {
			return meta
		}
	}
	var o struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if json.Unmarshal(it.JSON(), &o) != nil || o.Metadata == nil {
		return []byte("{}")
	}
	return o.Metadata
}

// objectEnd returns the length of the JSON object that b begins with; 0 if it
// begins with none.
func objectEnd(b []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		c := b[i]
		if quoted {
			switch c {
			case '\\':
				i++
			case '"':
				quoted = false
			}
			continue
		}
		switch c {
		case '"':
			quoted = true
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		default:
			if depth == 0 {
				return 0
			}
		}
	}
	return 0
}

// withoutTemplateGeneration returns the metadata of a DaemonSet without an
// annotation that upstream makes of a field when it encodes the whole object:
// the metadata alone does not have it. It returns nil where there is none.
func withoutTemplateGeneration(it *store.Item) *metav1.ObjectMeta {
	ds, ok := it.Object.(*appsv1.DaemonSet)
	if !ok || ds.Annotations[appsv1.DeprecatedTemplateGeneration] == "" {
		return nil
	}
	meta := ds.ObjectMeta
	meta.Annotations = maps.Clone(meta.Annotations)
	delete(meta.Annotations, appsv1.DeprecatedTemplateGeneration)
	return &meta
}

// metadataMessage returns the metadata of an item as protobuf. The object is not
// encoded for it: a list of metadata would leave the encodings of all objects in
// memory.
func metadataMessage(it *store.Item) []byte {
	if meta := withoutTemplateGeneration(it); meta != nil {
		b, _ := meta.Marshal() // into memory
		return b
	}
	if a, ok := it.Object.(metav1.ObjectMetaAccessor); ok {
		if meta, ok := a.GetObjectMeta().(*metav1.ObjectMeta); ok {
			b, _ := meta.Marshal()
			return b
		}
	}
	var meta metav1.ObjectMeta
	if json.Unmarshal(metadataOf(it), &meta) != nil {
		return nil
	}
	b, _ := meta.Marshal()
	return b
}
