package spans

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const sha = "0123456789abcdef0123456789abcdef01234567"

func after(d time.Duration) *metav1.MicroTime {
	t := metav1.NewMicroTime(epoch.Add(d))
	return &t
}

// commit was made at the epoch and seen two seconds later.
func commit(p v1alpha1.CommitPhase, change func(*v1alpha1.CommitStatus)) *v1alpha1.Commit {
	c := &v1alpha1.Commit{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Commit"}, ObjectMeta: metav1.ObjectMeta{Name: "shop-0123456789ab"},
		Spec: v1alpha1.CommitSpec{Repository: "shop", SHA: sha, Branch: "main", Author: "Ann <ann@example.org>", Message: "Raise\n\nit", Time: metav1.NewTime(epoch)}}
	c.Status = v1alpha1.CommitStatus{Phase: p, Reason: "R", Message: "said", SeenTime: after(2 * time.Second), Objects: 7}
	if change != nil {
		change(&c.Status)
	}
	return c
}

func whole(s *v1alpha1.CommitStatus) {
	s.RenderedTime, s.PlannedTime, s.AppliedTime, s.HealthyTime = after(2100*time.Millisecond), after(2200*time.Millisecond), after(2300*time.Millisecond), after(5*time.Second)
}

// text is a trace in a line: name(start-end in ms), ! where it failed.
func text(all []Span) string {
	var out []string
	for _, s := range all {
		t := strings.TrimPrefix(s.Name, "commit ") + "(" + s.Start.Sub(epoch).String() + "-" + s.End.Sub(epoch).String() + ")"
		if s.Error != "" {
			t += "!"
		}
		out = append(out, t)
	}
	return strings.Join(out, " ")
}

func TestTrace(t *testing.T) {
	old := commit(v1alpha1.CommitHealthy, whole)
	old.Spec.Time = metav1.NewTime(epoch.Add(-24 * time.Hour))
	future := commit(v1alpha1.CommitHealthy, whole)
	future.Spec.Time = metav1.NewTime(epoch.Add(time.Hour))
	for name, c := range map[string]struct {
		commit *v1alpha1.Commit
		want   string
	}{
		"healthy": {commit(v1alpha1.CommitHealthy, whole), "commit(0s-5s) push(0s-2s) render(2s-2.1s) plan(2.1s-2.2s) apply(2.2s-2.3s) converge(2.3s-5s)"},
		"refused": {commit(v1alpha1.CommitFailed, func(s *v1alpha1.CommitStatus) { s.FailedTime = after(3 * time.Second) }), "commit(0s-3s)! push(0s-2s) check(2s-3s)!"},
		"late": {commit(v1alpha1.CommitFailed, func(s *v1alpha1.CommitStatus) {
			s.PlannedTime, s.AppliedTime, s.FailedTime = after(3*time.Second), after(4*time.Second), after(time.Minute)
		}), "commit(0s-1m0s)! push(0s-2s) plan(2s-3s) apply(3s-4s) converge(4s-1m0s)!"},
		"superseded before it was applied": {commit(v1alpha1.CommitSuperseded, nil), "commit(0s-10s) push(0s-2s) check(2s-10s)"},
		"superseded":                       {commit(v1alpha1.CommitSuperseded, func(s *v1alpha1.CommitStatus) { s.AppliedTime = after(3 * time.Second) }), "commit(0s-10s) push(0s-2s) apply(2s-3s) converge(3s-10s)"},
		"pending":                          {commit(v1alpha1.CommitPending, nil), ""},
		"never seen":                       {commit(v1alpha1.CommitFailed, func(s *v1alpha1.CommitStatus) { s.SeenTime = nil }), ""},
		"made a day before":                {old, "commit(2s-5s) render(2s-2.1s) plan(2.1s-2.2s) apply(2.2s-2.3s) converge(2.3s-5s)"},
		"made in the future":               {future, "commit(2s-5s) render(2s-2.1s) plan(2.1s-2.2s) apply(2.2s-2.3s) converge(2.3s-5s)"},
		"a clock set back": {commit(v1alpha1.CommitHealthy, func(s *v1alpha1.CommitStatus) {
			s.AppliedTime, s.HealthyTime = after(time.Second), after(time.Second)
		}), "commit(0s-2s) push(0s-2s) apply(2s-2s) converge(2s-2s)"},
	} {
		if got := text(Trace(c.commit, epoch.Add(10*time.Second))); got != c.want {
			t.Errorf("%s: %s\n want %s", name, got, c.want)
		}
	}
}

func TestTraceID(t *testing.T) {
	if id, ok := TraceID(sha); !ok || id.String() != sha[:32] {
		t.Errorf("%v %v", id, ok)
	}
	for _, bad := range []string{"", "0123", strings.Repeat("0", 40), strings.Repeat("x", 40)} {
		if id, ok := TraceID(bad); ok {
			t.Errorf("%q: %v", bad, id)
		}
	}
	c := commit(v1alpha1.CommitHealthy, whole)
	other := c.DeepCopy()
	other.Status.SeenTime = after(time.Hour)
	ids := map[string]bool{}
	for _, id := range []string{spanID("prod", c, spanCommit).String(), spanID("prod", c, spanPush).String(), spanID("test", c, spanCommit).String(), spanID("prod", other, spanCommit).String()} {
		ids[id] = true
	}
	if len(ids) != 4 || spanID("prod", c, spanCommit) != spanID("prod", c.DeepCopy(), spanCommit) {
		t.Errorf("span IDs: %v", ids)
	}
}

// otlp is a collector in this process.
type otlp struct {
	mu       sync.Mutex
	requests []*collectorv1.ExportTraceServiceRequest
	paths    []string
	fail     int
	came     chan struct{}
}

func (o *otlp) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	b, err := io.ReadAll(body)
	in := &collectorv1.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(b, in)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case o.fail > 0:
		o.fail--
		http.Error(w, "not now", http.StatusServiceUnavailable)
	default:
		o.requests, o.paths = append(o.requests, in), append(o.paths, req.URL.Path)
		w.Header().Set("Content-Type", "application/x-protobuf")
		o.came <- struct{}{}
	}
}

func (o *otlp) wait(t *testing.T) {
	t.Helper()
	select {
	case <-o.came:
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
	}
}

func running(t *testing.T, cfg Config) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- New(cfg).Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// The trace of a commit comes to a real OTLP/HTTP receiver, after it has been
// away, and once.
func TestExport(t *testing.T) {
	o := &otlp{fail: 1, came: make(chan struct{}, 10)}
	srv := httptest.NewServer(o)
	defer srv.Close()
	c := client.NewFake()
	noted := make(chan struct{}, 10)
	if err := c.Cache().Subscribe(t.Context(), schema.ResourceFor[*v1alpha1.Commit](), func(ev client.Event) {
		if ev.Object.GetAnnotations()[annotation] != "" {
			noted <- struct{}{}
		}
	}); err != nil {
		t.Fatal(err)
	}
	var logs strings.Builder
	cfg := Config{Client: c, Endpoint: srv.URL + "/", Cluster: "prod", Version: "1.2.3", Log: slog.New(slog.NewTextHandler(&logs, nil))}
	stop := running(t, cfg)
	failed := commit(v1alpha1.CommitFailed, func(s *v1alpha1.CommitStatus) {
		s.FailedTime = after(3 * time.Second)
		s.Findings = []v1alpha1.Finding{{File: "a.yaml", Line: 3, Rule: "UnknownField", Message: "unknown field"}}
		s.Message = strings.Repeat("ä", 2000)
	})
	c.Put(commit(v1alpha1.CommitPending, nil))
	c.Put(failed)
	o.wait(t)
	<-noted
	stop()
	if !strings.Contains(logs.String(), "traces not sent yet") {
		t.Errorf("log: %s", logs.String())
	}
	stop = running(t, cfg) // what was sent is not sent again
	next := commit(v1alpha1.CommitHealthy, whole)
	next.Name, next.Spec.SHA = "shop-next", strings.Repeat("ab", 20)
	c.Put(next)
	o.wait(t)
	<-noted
	stop()
	if len(o.requests) != 2 || o.paths[0] != "/v1/traces" {
		t.Fatalf("%d requests at %v", len(o.requests), o.paths)
	}
	first, second := spansOf(t, o.requests[0]), spansOf(t, o.requests[1])
	if len(first) != 3 || len(second) != 6 {
		t.Fatalf("%d and %d spans", len(first), len(second))
	}
	root := first[0]
	if hex.EncodeToString(root.TraceId) != sha[:32] || len(root.ParentSpanId) > 0 || root.Status.GetCode() != tracev1.Status_STATUS_CODE_ERROR || root.Name != "commit" {
		t.Errorf("root: %v", root)
	}
	if check := first[2]; string(check.ParentSpanId) != string(root.SpanId) || len(check.Events) != 1 || check.Status.GetCode() != tracev1.Status_STATUS_CODE_ERROR {
		t.Errorf("check: %v", check)
	}
	if end := second[0].EndTimeUnixNano - second[0].StartTimeUnixNano; end != uint64(5*time.Second) || second[0].Status.GetCode() != tracev1.Status_STATUS_CODE_OK {
		t.Errorf("healthy: %v", second[0])
	}
	attrs := map[string]string{}
	for _, a := range append(second[0].Attributes, o.requests[1].ResourceSpans[0].Resource.Attributes...) {
		attrs[a.Key] = a.Value.GetStringValue()
	}
	for k, want := range map[string]string{"writ.repository": "shop", "vcs.ref.head.revision": next.Spec.SHA, "writ.commit.author": "Ann <ann@example.org>", "writ.commit.title": "Raise",
		"writ.commit.phase": "Healthy", "service.name": "writ", "service.version": "1.2.3", "k8s.cluster.name": "prod"} {
		if attrs[k] != want {
			t.Errorf("%s is %q, want %q", k, attrs[k], want)
		}
	}
}

func spansOf(t *testing.T, r *collectorv1.ExportTraceServiceRequest) []*tracev1.Span {
	t.Helper()
	if len(r.ResourceSpans) != 1 || len(r.ResourceSpans[0].ScopeSpans) != 1 {
		t.Fatalf("request: %v", r)
	}
	return r.ResourceSpans[0].ScopeSpans[0].Spans
}

// Without a collector nothing is watched; an endpoint that is none is an error
// that does not repeat what may be a secret.
func TestOff(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED"} {
		t.Setenv(name, "")
	}
	s := New(Config{Client: client.NewFake()})
	if s.Enabled() {
		t.Error("enabled by nothing")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	if !s.Enabled() {
		t.Error("not enabled by the environment")
	}
	t.Setenv("OTEL_SDK_DISABLED", "true")
	if s.Enabled() {
		t.Error("enabled although it is not to be")
	}
	t.Setenv("OTEL_SDK_DISABLED", "")
	for _, bad := range []string{"collector:4318", "ftp://collector/s3cret", "http:///s3cret", "http://a b/s3cret"} {
		if err := New(Config{Client: client.NewFake(), Endpoint: bad}).Run(t.Context()); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestSupersededAt(t *testing.T) {
	c := commit(v1alpha1.CommitSuperseded, nil)
	at := metav1.NewTime(epoch.Add(time.Minute))
	c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "writ", Subresource: "status", Time: &at}, {Manager: "writ-notify", Time: &metav1.Time{Time: epoch.Add(time.Hour)}}}
	if got := supersededAt(c); !got.Equal(at.Time) {
		t.Errorf("superseded at %v", got)
	}
	all := record(c, "", nil)
	if len(all) != 3 || !all[0].EndTime().Equal(at.Time) {
		t.Fatalf("%d spans", len(all))
	}
	var phase string
	for _, a := range all[0].Attributes() {
		if a.Key == attribute.Key("writ.commit.phase") {
			phase = a.Value.AsString()
		}
	}
	if phase != "Superseded" {
		t.Errorf("phase %q", phase)
	}
}
