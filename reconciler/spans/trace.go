package spans

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// TraceID is the trace of a commit, in every cluster and every tool: the first
// 32 hexadecimal digits of its SHA. A pipeline that wants its spans beside
// those of writ sends
//
//	traceparent: 00-<first 32 digits of the SHA>-<its own span>-01
//
// (W3C Trace Context, level 1), and a page can link to the trace of a commit
// without asking anybody. False where the SHA is none.
func TraceID(sha string) (trace.TraceID, bool) {
	var id trace.TraceID
	if len(sha) < 2*len(id) {
		return id, false
	}
	if _, err := hex.Decode(id[:], []byte(sha[:2*len(id)])); err != nil {
		return trace.TraceID{}, false
	}
	return id, id.IsValid()
}

// spanID is the same for the same stage of the same try of a commit, so that a
// span that is sent twice is one.
func spanID(cluster string, c *v1alpha1.Commit, name string) trace.SpanID {
	sum := sha256.Sum256([]byte(cluster + "\x00" + c.Spec.Repository + "\x00" + c.Spec.SHA + "\x00" + mark(c) + "\x00" + name))
	var id trace.SpanID
	copy(id[:], sum[:])
	id[0] |= 1 // never all zero
	return id
}

// Span is one stage of a commit's way, or the whole way.
type Span struct {
	Name       string
	Start, End time.Time
	// Error is why the stage failed; "": it did not.
	Error      string
	Attributes []attribute.KeyValue
	Findings   []v1alpha1.Finding
}

// The names of the spans. What failed before the commit was applied failed in
// its check: reading, rendering, validation and planning.
const (
	spanCommit   = "commit"
	spanPush     = "commit push"     // from the commit to the moment it was seen
	spanRender   = "commit render"   // to the files read and rendered
	spanPlan     = "commit plan"     // to the plan
	spanApply    = "commit apply"    // to the transaction stored
	spanConverge = "commit converge" // to all objects healthy, or the end of patience
	spanCheck    = "commit check"
)

const (
	maxPush     = time.Hour // a commit older than this was not pushed when it was made
	maxFindings = 20
	maxText     = 1000
)

// Trace makes the spans of a commit that has ended, the whole way first, from
// the times in its status. ended is when a superseded commit ended, which its
// status does not say. It is empty where the commit has not ended or was never
// seen.
func Trace(c *v1alpha1.Commit, ended time.Time) []Span {
	s := &c.Status
	if !Ended(c) || s.SeenTime == nil {
		return nil
	}
	var out []Span
	at := s.SeenTime.Time
	start := at
	if t := c.Spec.Time.Time; !c.Spec.Time.IsZero() && t.Before(at) && at.Sub(t) <= maxPush {
		start = t
		out = append(out, Span{Name: spanPush, Start: t, End: at})
	}
	stage := func(name string, t time.Time) *Span {
		if t.Before(at) { // clocks are set back
			t = at
		}
		out = append(out, Span{Name: name, Start: at, End: t})
		at = t
		return &out[len(out)-1]
	}
	if s.RenderedTime != nil {
		stage(spanRender, s.RenderedTime.Time)
	}
	if s.PlannedTime != nil {
		stage(spanPlan, s.PlannedTime.Time)
	}
	last := spanCheck
	if s.AppliedTime != nil {
		stage(spanApply, s.AppliedTime.Time)
		last = spanConverge
	}
	var failure string
	switch {
	case s.Phase == v1alpha1.CommitHealthy && s.HealthyTime != nil:
		stage(last, s.HealthyTime.Time)
	case s.Phase == v1alpha1.CommitFailed:
		t := at
		if s.FailedTime != nil {
			t = s.FailedTime.Time
		}
		failure = cut(s.Message)
		f := stage(last, t)
		f.Error, f.Findings = failure, s.Findings[:min(len(s.Findings), maxFindings)]
	case s.Phase == v1alpha1.CommitSuperseded:
		stage(last, ended)
	}
	return append([]Span{{Name: spanCommit, Start: start, End: at, Error: failure, Attributes: attributes(c)}}, out...)
}

// Ended says whether nothing else is to be expected of a commit.
func Ended(c *v1alpha1.Commit) bool {
	switch c.Status.Phase {
	case v1alpha1.CommitHealthy, v1alpha1.CommitFailed, v1alpha1.CommitSuperseded:
		return true
	}
	return false
}

// attributes of the whole way. vcs.* are OpenTelemetry's names.
func attributes(c *v1alpha1.Commit) []attribute.KeyValue {
	s := &c.Status
	n := func(name string, v int32) attribute.KeyValue { return attribute.Int64("writ.objects."+name, int64(v)) }
	out := []attribute.KeyValue{
		attribute.String("writ.repository", c.Spec.Repository), attribute.String("vcs.ref.head.revision", c.Spec.SHA),
		attribute.String("vcs.ref.head.name", c.Spec.Branch), attribute.String("writ.commit.author", cut(c.Spec.Author)),
		attribute.String("writ.commit.title", cut(report.Title(c.Spec.Message))), attribute.String("writ.commit.phase", string(s.Phase)),
		attribute.String("writ.commit.reason", s.Reason), n("declared", s.Objects), n("created", s.Created), n("updated", s.Updated),
		n("deleted", s.Deleted), n("unchanged", s.Unchanged), n("ready", s.Ready), attribute.Int("writ.findings", len(s.Findings)),
	}
	if s.RolledBackTo != "" {
		out = append(out, attribute.String("writ.commit.rolled_back_to", s.RolledBackTo))
	}
	return out
}

// mark is the state of a commit that is exported once.
func mark(c *v1alpha1.Commit) string {
	return fmt.Sprintf("%s@%d", c.Status.Phase, seen(c))
}

// seen is when a commit came in, in microseconds since 1970.
func seen(c *v1alpha1.Commit) int64 {
	if c.Status.SeenTime == nil {
		return 0
	}
	return c.Status.SeenTime.UnixMicro()
}

// supersededAt is when the status was last written; of a commit that was
// superseded, then.
func supersededAt(c *v1alpha1.Commit) time.Time {
	var at time.Time
	for _, m := range c.ManagedFields {
		if m.Subresource == "status" && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}

// cut bounds a text, which in OTLP is UTF-8.
func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "") }
