package spans

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// record makes the library's spans of a commit's. It has no clock and sends
// nothing: it collects what the library would.
func record(c *v1alpha1.Commit, cluster string, r *resource.Resource) []sdk.ReadOnlySpan {
	traceID, ok := TraceID(c.Spec.SHA)
	all := Trace(c, supersededAt(c))
	if !ok || len(all) == 0 {
		return nil
	}
	ids, out := &fixed{trace: traceID}, &collector{}
	tracer := sdk.NewTracerProvider(sdk.WithIDGenerator(ids), sdk.WithSpanProcessor(out), sdk.WithResource(r),
		sdk.WithSampler(sdk.AlwaysSample())).Tracer("github.com/writ-os/writ/reconciler")
	ctx := context.Background()
	for i, s := range all {
		ids.next = spanID(cluster, c, s.Name)
		started, span := tracer.Start(ctx, s.Name, trace.WithTimestamp(s.Start), trace.WithAttributes(s.Attributes...))
		for _, f := range s.Findings {
			span.AddEvent("finding", trace.WithTimestamp(s.End), trace.WithAttributes(attribute.String("rule", f.Rule), attribute.String("file", f.File),
				attribute.Int("line", f.Line), attribute.String("message", cut(f.Message))))
		}
		if s.Error != "" {
			span.SetStatus(codes.Error, s.Error)
		} else if c.Status.Phase == v1alpha1.CommitHealthy {
			span.SetStatus(codes.Ok, "")
		}
		span.End(trace.WithTimestamp(s.End))
		if i == 0 {
			ctx = started // the whole way is the parent of its stages
		}
	}
	return out.spans
}

// fixed gives the IDs that it is told to.
type fixed struct {
	trace trace.TraceID
	next  trace.SpanID
}

// NewIDs implements sdk.IDGenerator.
func (f *fixed) NewIDs(context.Context) (trace.TraceID, trace.SpanID) { return f.trace, f.next }

// NewSpanID implements sdk.IDGenerator.
func (f *fixed) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return f.next }

// collector keeps the spans that end.
type collector struct{ spans []sdk.ReadOnlySpan }

// OnStart implements sdk.SpanProcessor.
func (*collector) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor.
func (c *collector) OnEnd(s sdk.ReadOnlySpan) { c.spans = append(c.spans, s) }

// Shutdown implements sdk.SpanProcessor.
func (*collector) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdk.SpanProcessor.
func (*collector) ForceFlush(context.Context) error { return nil }
