package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/controlplane/apiserver/table"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// allowFor accepts what objects of a resource can be turned into: protobuf
// only where the kind has it.
func allowFor(r *schema.Resource) func(media, conversion) bool {
	if r.HasProtobuf() {
		return allowObjects
	}
	return func(m media, c conversion) bool {
		return allowObjects(m, c) && (m != mediaProtobuf || c.Kind != "")
	}
}

// partialJSON is the metadata of an item as an object of its own.
func partialJSON(b []byte, version string, it *store.Item) []byte {
	b = append(b, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/`...)
	b = append(b, version...)
	b = append(b, `","metadata":`...)
	b = append(b, metadataOf(it)...)
	return append(b, '}')
}

// partialProtobuf is the same in protobuf, in its envelope.
func partialProtobuf(version string, it *store.Item) []byte {
	meta := metadataMessage(it)
	tm := runtime.TypeMeta{APIVersion: "meta.k8s.io/" + version, Kind: "PartialObjectMetadata"}
	tmb, _ := tm.Marshal()
	b := append(appendField([]byte("k8s\x00"), 1, len(tmb)), tmb...)
	b = appendField(b, 2, fieldSize(len(meta)))
	b = append(appendField(b, 1, len(meta)), meta...)
	return append(b, 0x1a, 0, 0x22, 0)
}

func writePartialJSONList(b *body, version string, p *listPage) {
	b.addString(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/` + version + `","metadata":`)
	b.add(p.metadata())
	b.addString(`,"items":[`)
	for i, it := range p.items {
		if i > 0 {
			*b.buf = append(*b.buf, ',')
		}
		*b.buf = partialJSON(*b.buf, version, it)
		b.spill()
	}
	b.addString("]}\n")
}

func writePartialProtobufList(b *body, version string, p *listPage) {
	metas := make([][]byte, len(p.items))
	size := 0
	for i, it := range p.items {
		metas[i] = metadataMessage(it)
		size += fieldSize(fieldSize(len(metas[i])))
	}
	tm := runtime.TypeMeta{APIVersion: "meta.k8s.io/" + version, Kind: "PartialObjectMetadataList"}
	writeEnvelope(b, tm, p, size, func() {
		for _, meta := range metas {
			*b.buf = appendField(*b.buf, 2, fieldSize(len(meta)))
			*b.buf = appendField(*b.buf, 1, len(meta))
			b.add(meta)
		}
	})
}

// includeObject reads what a Table's rows carry beside the cells.
func includeObject(r *http.Request) (metav1.IncludeObjectPolicy, error) {
	v := metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))
	switch v {
	case "":
		return metav1.IncludeMetadata, nil
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		return v, nil
	}
	bad := field.Invalid(field.NewPath("includeObject"), v, "must be 'Metadata', 'Object', 'None', or empty")
	return "", apierrors.NewBadRequest("Unable to convert to Table as requested: " + bad.Error())
}

// checkShape refuses the metadata of a list where there is one object, and that
// of one object where there is a list.
func checkShape(r *schema.Resource, out output, list bool) error {
	name := "*" + internalName(r.Group) + "." + r.Kind
	if r.Custom != nil {
		name = "*unstructured.Unstructured"
	}
	switch {
	case out.Convert.Kind == "PartialObjectMetadataList" && !list:
		return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (%s)", name))
	case out.Convert.Kind == "PartialObjectMetadata" && list:
		return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (%sList)", name))
	}
	return nil
}

// internalName is the package of upstream's own types of a group, which error
// texts mention.
func internalName(group string) string {
	if group == "" {
		return "core"
	}
	name, _, _ := strings.Cut(group, ".")
	return name
}

// writeTable writes a Table. Column definitions are left out of all but the
// first of a watch.
func writeTable(b *body, t rowTable, items []*store.Item, meta []byte, version string, include metav1.IncludeObjectPolicy, definitions bool) {
	b.add(tableHead(t, meta, version, definitions))
	now := time.Now()
	for i, it := range items {
		if i > 0 {
			*b.buf = append(*b.buf, ',')
		}
		*b.buf = appendRow(*b.buf, t, it, version, include, now)
		b.spill()
	}
	b.addString("]}\n")
}

func tableHead(t rowTable, meta []byte, version string, definitions bool) []byte {
	columns := []byte("null")
	if definitions {
		columns = t.Definitions()
	}
	return slices.Concat([]byte(`{"kind":"Table","apiVersion":"meta.k8s.io/`+version+`","metadata":`), meta,
		[]byte(`,"columnDefinitions":`), columns, []byte(`,"rows":[`))
}

func appendRow(b []byte, t rowTable, it *store.Item, version string, include metav1.IncludeObjectPolicy, now time.Time) []byte {
	b = append(b, `{"cells":`...)
	b = t.AppendCells(b, &table.Row{Object: it.Object, Now: now})
	switch include {
	case metav1.IncludeNone:
		b = append(b, `,"object":null`...)
	case metav1.IncludeMetadata:
		b = append(b, `,"object":`...)
		b = partialJSON(b, version, it)
	case metav1.IncludeObject:
		b = append(b, `,"object":`...)
		b = append(b, it.JSON()...)
	}
	return append(b, '}')
}

// appendTable is a Table of one item, as events of a watch carry it.
func appendTable(b []byte, t rowTable, it *store.Item, version string, include metav1.IncludeObjectPolicy, definitions bool) []byte {
	meta := []byte(`{"resourceVersion":"` + it.Version.String() + `"}`)
	b = append(b, tableHead(t, meta, version, definitions)...)
	b = appendRow(b, t, it, version, include, time.Now())
	return append(b, "]}"...)
}

// writeItem writes one object in the encoding and the shape that were
// negotiated.
func (s *Server) writeItem(x *exchange, r *schema.Resource, code int, out output, it *store.Item) {
	include, err := metav1.IncludeMetadata, checkShape(r, out, false)
	if err == nil && out.table() {
		include, err = includeObject(x.r)
	}
	if err != nil {
		s.writeError(x, x.r, err)
		return
	}
	if x.event.Bodies() {
		x.event.Response(it.Object)
	}
	b := newBody(x, code, out)
	switch {
	case out.table():
		*b.buf = append(appendTable(*b.buf, s.tableOf(r), it, out.Convert.Version, include, true), '\n')
	case out.partial() && out.Media == mediaProtobuf:
		b.add(partialProtobuf(out.Convert.Version, it))
	case out.partial():
		*b.buf = append(partialJSON(*b.buf, out.Convert.Version, it), '\n')
	case out.Media == mediaProtobuf:
		*b.buf = it.AppendProtobuf(*b.buf)
	default:
		b.add(it.JSON())
		b.addString("\n")
	}
	b.close()
}
