package audit

import (
	"bytes"
	"testing"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"
)

// sameLine holds what is written of an event against what the library writes.
func sameLine(t *testing.T, e *auditinternal.Event) {
	t.Helper()
	want, err := runtime.Encode(audit.Codecs.LegacyCodec(auditv1.SchemeGroupVersion), e)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	sink := lineSink{auditlog.NewBackend(&got, auditlog.FormatJson, auditv1.SchemeGroupVersion), &got}
	if !sink.ProcessEvents(e) || got.String() != string(want) {
		t.Errorf("the line is\n%s\nwant\n%s", got.String(), want)
	}
}

func TestLine(t *testing.T) {
	at := metav1.NewMicroTime(time.Date(2026, 11, 23, 1, 2, 3, 45_000, time.FixedZone("x", 3600)))
	full := func() *auditinternal.Event {
		return &auditinternal.Event{Level: "Metadata", AuditID: "id", Stage: "ResponseComplete", RequestURI: "/api?a=b&c=<d>", Verb: "create",
			User: authnv1.UserInfo{Username: "jane", UID: "1", Groups: []string{"dev", "é\u2028\xff"}}, SourceIPs: []string{"::1", "10.0.0.1"}, UserAgent: "k\"\\\x00\x7f",
			ObjectRef:      &auditinternal.ObjectReference{Resource: "pods", Namespace: "n", Name: "x", UID: "u", APIGroup: "g", APIVersion: "v1", ResourceVersion: "7", Subresource: "status"},
			ResponseStatus: &metav1.Status{Status: "Failure", Message: "no", Reason: "Forbidden", Code: 403}, RequestReceivedTimestamp: at, StageTimestamp: at,
			Annotations: map[string]string{"b": "2", "a/x": "1\n"}}
	}
	for name, change := range map[string]func(*auditinternal.Event){
		"full":         func(*auditinternal.Event) {},
		"empty":        func(e *auditinternal.Event) { *e = auditinternal.Event{} },
		"no user":      func(e *auditinternal.Event) { e.User = authnv1.UserInfo{} },
		"groups alone": func(e *auditinternal.Event) { e.User = authnv1.UserInfo{Groups: []string{"g"}} },
		"empty parts": func(e *auditinternal.Event) {
			e.ObjectRef, e.ResponseStatus, e.Annotations = &auditinternal.ObjectReference{}, &metav1.Status{}, map[string]string{}
		},
		"no parts": func(e *auditinternal.Event) {
			e.ObjectRef, e.ResponseStatus, e.Annotations, e.SourceIPs = nil, nil, nil, nil
		},
		"extra":        func(e *auditinternal.Event) { e.User.Extra = map[string]authnv1.ExtraValue{"k": {"v"}} },
		"impersonated": func(e *auditinternal.Event) { e.ImpersonatedUser = &authnv1.UserInfo{Username: "x"} },
		"details":      func(e *auditinternal.Event) { e.ResponseStatus.Details = &metav1.StatusDetails{Name: "x"} },
		"continued":    func(e *auditinternal.Event) { e.ResponseStatus.Continue = "x" },
		"a body": func(e *auditinternal.Event) {
			e.RequestObject = &runtime.Unknown{Raw: []byte(`{"a":1}`), ContentType: runtime.ContentTypeJSON}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := full()
			change(e)
			sameLine(t, e)
		})
	}
}

func FuzzLine(f *testing.F) {
	f.Add("/api/v1/pods", "kubectl/v1.36", "jane", "a", "b", int32(200), int64(1))
	f.Add("", "\xff<>&\u2029", "", "\"", "\\", int32(0), int64(0))
	f.Fuzz(func(t *testing.T, uri, agent, user, key, value string, code int32, at int64) {
		sameLine(t, &auditinternal.Event{RequestURI: uri, UserAgent: agent, User: authnv1.UserInfo{Username: user}, ObjectRef: &auditinternal.ObjectReference{Name: value},
			ResponseStatus: &metav1.Status{Code: code, Message: value}, Annotations: map[string]string{key: value, value: key}, StageTimestamp: metav1.NewMicroTime(time.Unix(at%250_000_000_000, at%1_000_000_000).UTC())})
	})
}
