package audit

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
)

// lineSink writes the events that have no bodies, which are nearly all, as lines of
// JSON by itself: the library converts each to another type and goes through it
// by reflection, for half of what an event costs. What is out of the ordinary
// goes on to the library. A test holds both to the same bytes.
type lineSink struct {
	audit.Backend
	out io.Writer
}

// linePool holds the bytes of lines between events.
var linePool = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// ProcessEvents implements audit.Sink.
func (l lineSink) ProcessEvents(events ...*auditinternal.Event) bool {
	done := true
	for _, e := range events {
		if !plain(e) {
			done = l.Backend.ProcessEvents(e) && done
			continue
		}
		b := linePool.Get().(*[]byte)
		*b = appendEvent((*b)[:0], e)
		if _, err := l.out.Write(*b); err != nil {
			audit.HandlePluginError("log", err, e)
			done = false
		}
		linePool.Put(b)
	}
	return done
}

// plain says whether an event has nothing but what appendEvent writes.
func plain(e *auditinternal.Event) bool {
	if e.RequestObject != nil || e.ResponseObject != nil || e.ImpersonatedUser != nil || e.AuthenticationMetadata != nil || len(e.User.Extra) > 0 {
		return false
	}
	s := e.ResponseStatus
	return s == nil || s.Details == nil && s.SelfLink == "" && s.ResourceVersion == "" && s.Continue == "" && s.RemainingItemCount == nil && s.ShardInfo == nil
}

// appendEvent appends an event of audit.k8s.io/v1 and a newline, in the order of
// the fields of its type.
func appendEvent(b []byte, e *auditinternal.Event) []byte {
	b = append(b, `{"kind":"Event","apiVersion":"audit.k8s.io/v1"`...)
	b = appendField(b, "level", string(e.Level))
	b = appendField(b, "auditID", string(e.AuditID))
	b = appendField(b, "stage", string(e.Stage))
	b = appendField(b, "requestURI", e.RequestURI)
	b = appendField(b, "verb", e.Verb)
	b = append(b, `,"user":{`...)
	first := len(b)
	b = appendSome(b, "username", e.User.Username)
	b = appendSome(b, "uid", e.User.UID)
	b = appendStrings(b, "groups", e.User.Groups)
	b = append(withoutComma(b, first), '}')
	b = appendStrings(b, "sourceIPs", e.SourceIPs)
	b = appendSome(b, "userAgent", e.UserAgent)
	if o := e.ObjectRef; o != nil {
		b = append(b, `,"objectRef":{`...)
		first := len(b)
		b = appendSome(b, "resource", o.Resource)
		b = appendSome(b, "namespace", o.Namespace)
		b = appendSome(b, "name", o.Name)
		b = appendSome(b, "uid", string(o.UID))
		b = appendSome(b, "apiGroup", o.APIGroup)
		b = appendSome(b, "apiVersion", o.APIVersion)
		b = appendSome(b, "resourceVersion", o.ResourceVersion)
		b = appendSome(b, "subresource", o.Subresource)
		b = append(withoutComma(b, first), '}')
	}
	if s := e.ResponseStatus; s != nil {
		b = append(b, `,"responseStatus":{"metadata":{}`...)
		b = appendSome(b, "status", s.Status)
		b = appendSome(b, "message", s.Message)
		b = appendSome(b, "reason", string(s.Reason))
		if s.Code != 0 {
			b = strconv.AppendInt(append(b, `,"code":`...), int64(s.Code), 10)
		}
		b = append(b, '}')
	}
	b = appendTime(b, "requestReceivedTimestamp", e.RequestReceivedTimestamp)
	b = appendTime(b, "stageTimestamp", e.StageTimestamp)
	if len(e.Annotations) > 0 {
		b = append(b, `,"annotations":{`...)
		first := len(b)
		for _, k := range slices.Sorted(maps.Keys(e.Annotations)) {
			b = append(appendText(append(b, ','), k), ':')
			b = appendText(b, e.Annotations[k])
		}
		b = append(withoutComma(b, first), '}')
	}
	return append(b, "}\n"...)
}

// withoutComma drops the comma before the first field of a struct.
func withoutComma(b []byte, first int) []byte {
	if len(b) > first {
		b = slices.Delete(b, first, first+1)
	}
	return b
}

func appendField(b []byte, name, value string) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return appendText(b, value)
}

// appendSome appends a field unless it is empty.
func appendSome(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendField(b, name, value)
}

func appendStrings(b []byte, name string, values []string) []byte {
	if len(values) == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":[`...)
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, v)
	}
	return append(b, ']')
}

func appendTime(b []byte, name string, t metav1.MicroTime) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	if t.IsZero() {
		return append(b, "null"...)
	}
	b = t.UTC().AppendFormat(append(b, '"'), metav1.RFC3339Micro)
	return append(b, '"')
}

// appendText appends a JSON string; what needs escapes is the library's.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			escaped, err := json.Marshal(s)
			if err != nil {
				return append(b, `""`...) // does not happen to a string
			}
			return append(b, escaped...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
